// Command waterfall draws the spans of a run as an SVG picture: which calls wait, which hold, and what each wait is for.
//
//	go run ./internal/test/integration/waterfall -o docs/contention.svg
//	go run ./internal/test/integration/waterfall -o busy.svg -- go run ./examples/orders -otlp {addr}
//
// It starts a collector, runs the command (by default the scene of examples/orders), and draws the spans that the command
// exports over OTLP/gRPC. {addr} in an argument is replaced with the collector's host and port, which are also in
// OTEL_EXPORTER_OTLP_ENDPOINT. If the command fails, or exports no spans, nothing is drawn.
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

// run is the program; the output of the command goes to stderr.
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

// record runs the command and returns the exported spans.
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
	cmd.WaitDelay = 5 * time.Second // a child of go run may keep the output open
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return c.Data().Spans, nil // an export is answered only when the collector has the spans
}
