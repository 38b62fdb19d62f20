// Stock sells the last items of a shop in twenty-four ways. Some use no guard, a mutex, conditions and locks in SQL, hand-written
// Redis locks, scripts or queues. The others use locks and idempotency keys of lockmw. Users click "buy" several times each, over
// HTTP, at two shop processes. A table shows oversold items, duplicate orders and speed. Then scripts reproduce the faults of each
// way.
//
//	go run ./examples/stock
//	go run ./examples/stock -ways setnx,setnx-expiry
//	go run ./examples/stock -redis localhost:6379 -db postgres://user:password@localhost/shop
//	go run ./examples/stock -json -svg stock.svg
//
// Read internal/ways first, which has a file for each family of ways, and then internal/faults with their faults.
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

	"github.com/lockmw/go/examples/stock/internal/settings"
	"github.com/lockmw/go/examples/stock/internal/shop"
	"github.com/lockmw/go/internal/process"
)

// The exit statuses.
const (
	exitOK          = 0
	exitBroken      = 1 // a way broke a promise that it should keep
	exitUsage       = 2 // it could not start
	exitInterrupted = 130
)

func main() {
	process.ChildMain(shop.Live) // does not return in a shop's process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills the program
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := settings.Parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "stock: %s (-h shows the flags)\n", oneLine(err))
		return exitUsage
	}
	broken, err := compare(ctx, cfg, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "stock: interrupted")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "stock: %s\n", oneLine(err))
		return exitUsage
	case broken:
		return exitBroken
	}
	return exitOK
}

// oneLine returns the text of an error on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
