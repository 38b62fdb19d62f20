// Orders is a flash sale: many users click "buy" several times, and stock is short. It runs the sale
// twice over real HTTP, first without locks and then with them, and prints both results side by side.
//
//	go run ./examples/orders
//	go run ./examples/orders -redis localhost:6379 -users 1000 -json
//	go run ./examples/orders -redis localhost:7000,localhost:7001      # a Cluster
//	go run ./examples/orders -redis localhost:26379 -sentinel-master mymaster
//	go run ./examples/orders -serve :8080 -metrics :9090
//	go run ./examples/orders -contend -otlp localhost:4317
//
// Read shop.go first: the route, the task and the SQL. open.go creates the locks, internal/telemetry
// exports spans and metrics, and contend.go plays a scene for Jaeger. The crowd, the figures and the
// flags are in internal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/examples/orders/internal/settings"
	"github.com/lockmw/go/examples/orders/internal/telemetry"
)

// The exit statuses.
const (
	exitOK          = 0
	exitBroken      = 1 // the locked sale broke a promise, or the scene failed
	exitUsage       = 2 // it could not start
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills the program
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runUnder(ctx, usual, args, stdout, stderr)
}

// runUnder runs the program. A sale takes place under the given conditions.
func runUnder(ctx context.Context, sale func(locked bool) conditions, args []string, stdout, stderr io.Writer) int {
	cfg, err := settings.Parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "orders: %v (-h shows the flags)\n", err)
		return exitUsage
	}
	code, err := start(ctx, cfg, sale, stdout, stderr)
	switch {
	case ctx.Err() != nil && cfg.Serve == "":
		_, _ = fmt.Fprintln(stderr, "orders: interrupted")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "orders: %v\n", err)
		return exitUsage
	}
	return code
}

// start opens the resources of all sales and runs the mode of the flags.
func start(
	ctx context.Context, cfg settings.Settings, sale func(locked bool) conditions, stdout, stderr io.Writer,
) (code int, err error) {
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	server, err := redisserver.Open(ctx, cfg.Redis, cfg.SentinelMaster)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	server.ExpireEvery(50 * time.Millisecond) // records of idempotency are many, and all leases are much longer

	sink, err := telemetry.Open(ctx, cfg, stderr)
	if err != nil {
		return 0, err
	}
	defer sink.Close()

	world := world{Settings: cfg, dir: dir, redis: server, telemetry: sink}
	switch {
	case cfg.Serve != "":
		return exitOK, world.serve(ctx, stdout)
	case cfg.Contend:
		return world.contend(ctx, stdout)
	}
	return world.compare(ctx, sale, stdout, stderr)
}
