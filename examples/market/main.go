// Market is the marketplace of "Redis in Action", chapters 4 and 6. Sellers list items in one sorted set, and buyers buy
// them: an item and its price change hands together. The program runs the same load with each way to guard a purchase and
// compares throughput, waits, retries, and the money and items at the end.
//
//	go run ./examples/market
//	go run ./examples/market -redis localhost:6379 -seconds 60
//	go run ./examples/market -ways watch,fine -loads 1x1,10x10 -json
//	go run ./examples/market -redis localhost:6379 -svg market.svg
//
// Read steps.go first: a listing and a purchase without any guard. ways.go lists the ways; watch.go, locked.go and script.go
// are the guards. contend.go is the load, and audit.go checks money and items.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit statuses.
const (
	exitOK          = 0
	exitBroken      = 1 // a guarded way lost money or items, or sold one twice
	exitUsage       = 2 // it could not start or continue
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills the program
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "market: %v (-h shows the flags)\n", err)
		return exitUsage
	}
	broken, err := compare(ctx, cfg, stdout, stderr)
	return exitStatus(ctx, broken, err, stderr)
}

// exitStatus returns the exit status of a run, and prints a line after an error.
func exitStatus(ctx context.Context, broken bool, err error, stderr io.Writer) int {
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "market: interrupted")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "market: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return exitUsage
	case broken:
		return exitBroken
	}
	return exitOK
}
