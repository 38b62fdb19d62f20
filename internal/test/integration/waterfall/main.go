// Command waterfall draws the spans of a run as an SVG picture: who waits, who holds, and for whom
// the wait is.
//
//	go run ./internal/test/integration/waterfall -o docs/contention.svg
//	go run ./internal/test/integration/waterfall -o busy.svg -- go run ./examples/orders -otlp {addr}
//
// It starts a collector, runs the command (by default the scene of examples/orders), and draws what
// that exported over OTLP/gRPC until its end. {addr} in an argument becomes the collector's host and
// port, which are in OTEL_EXPORTER_OTLP_ENDPOINT as well. A command that fails, or exports no spans,
// draws nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/integration/collector"
)

var defaultCommand = []string{"go", "run", "./examples/orders", "-contend", "-otlp", "{addr}"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "waterfall: %v\n", err)
		os.Exit(1)
	}
}

// run is the program; what the command prints goes to stderr.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("waterfall", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "", "write the picture to this `file`")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long the command may take")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("-o file is missing")
	}
	command := flags.Args()
	if len(command) == 0 {
		command = defaultCommand
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	spans, err := record(ctx, command, stderr)
	if err != nil {
		return err
	}
	picture, err := draw(spans)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(*out, picture, 0o644)
}

// record runs the command and returns the spans that it exports.
func record(ctx context.Context, command []string, output io.Writer) ([]collector.Span, error) {
	c, err := collector.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	args := make([]string, len(command))
	for i, a := range command {
		args[i] = strings.ReplaceAll(a, "{addr}", c.Addr())
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+c.Addr())
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = 5 * time.Second // go run's child may hold on to the output
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return c.Data().Spans, nil // each export is answered when the collector has the spans
}
