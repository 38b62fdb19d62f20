// Orders is a flash sale: many people click "buy" several times, for few things of which there are
// fewer still. It runs the sale twice over real HTTP, first without locks and then with them, and
// prints what came of it.
//
//	go run ./examples/orders
//	go run ./examples/orders -redis localhost:6379 -users 1000 -json
//	go run ./examples/orders -serve :8080
//
// Read shop.go for the route, fulfil.go for the task, store.go for the SQL, and open.go for how the
// locks are made; the rest is the crowd and the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// The exit statuses.
const (
	exitOK          = 0
	exitBroken      = 1 // the locked sale broke a promise
	exitUsage       = 2 // it could not even start
	exitInterrupted = 130
)

type config struct {
	users, clicks, items, stock int
	seed                        uint64
	redis, serve, otlp          string
	json                        bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the first
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "orders: %v (-h shows the flags)\n", err)
		return exitUsage
	}
	code, err := start(ctx, cfg, stdout, stderr)
	switch {
	case ctx.Err() != nil && cfg.serve == "":
		_, _ = fmt.Fprintln(stderr, "orders: interrupted")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "orders: %v\n", err)
		return exitUsage
	}
	return code
}

// start opens what both sales share, and runs them or serves.
func start(ctx context.Context, cfg config, stdout, stderr io.Writer) (code int, err error) {
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	server, err := openRedis(ctx, cfg.redis)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.close()) }()

	spans, err := openTracing(ctx, cfg.otlp, stderr)
	if err != nil {
		return 0, err
	}
	defer spans.close()

	world := world{config: cfg, dir: dir, redis: server, tracer: spans.provider}
	if cfg.serve != "" {
		return exitOK, world.serve(ctx, stdout)
	}
	return world.compare(ctx, stdout, stderr)
}

func parseFlags(args []string, stderr io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.IntVar(&c.users, "users", 400, "how many people want something")
	f.IntVar(&c.clicks, "clicks", 3, "how often each of them clicks")
	f.IntVar(&c.items, "items", 5, "how many different things are for sale")
	f.IntVar(&c.stock, "stock", 40, "how many there are of each")
	f.Uint64Var(&c.seed, "seed", 1, "who wants what, and when they click")
	f.StringVar(&c.redis, "redis", "", "use the Redis at `host:port` instead of an embedded one")
	f.StringVar(&c.serve, "serve", "", "open the shop at `address`, e.g. :8080, until Ctrl-C")
	f.BoolVar(&c.json, "json", false, "print the figures as JSON too, as the last line")
	f.StringVar(&c.otlp, "otlp", "", "export spans to the OTLP gRPC collector at `host:port`")

	f.SetOutput(io.Discard) // the flag package would print the usage after every mistake
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(stderr)
			f.Usage()
		}
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	err := c.check()
	return c, err
}

func (c *config) check() error {
	for _, n := range []struct {
		flag       string
		value, max int
	}{
		{"users", c.users, 100_000},
		{"clicks", c.clicks, 100},
		{"items", c.items, 10_000},
		{"stock", c.stock, 1_000_000},
	} {
		if n.value < 1 || n.value > n.max {
			return fmt.Errorf("-%s is %d, must be from 1 to %d", n.flag, n.value, n.max)
		}
	}
	for _, a := range []struct{ flag, value string }{{"redis", c.redis}, {"serve", c.serve}, {"otlp", c.otlp}} {
		if a.value == "" {
			continue
		}
		host, port, err := net.SplitHostPort(a.value)
		n, portErr := strconv.ParseUint(port, 10, 16)
		dialled := a.flag != "serve" // a listener may leave out the host, and take any port
		if err != nil || portErr != nil || dialled && (host == "" || n == 0) {
			return fmt.Errorf("-%s is %q, must be host:port", a.flag, a.value)
		}
	}
	if c.json && c.serve != "" {
		return errors.New("-json prints the figures of a sale, and -serve runs none")
	}
	return nil
}
