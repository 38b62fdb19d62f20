// Onekey shows one lock for a route, an asynq task, a river job and a message of a Redis stream. All of them work on an item, and
// lock the key "item:" plus the item's ID. So they never run at the same time for the same item, and one trace shows which of them
// waited for which.
//
//	go run ./examples/onekey
//	go run ./examples/onekey -otlp localhost:4317    # also sends the trace to Jaeger
//
// Read route.go, task.go, job.go and message.go: each mounts the lock in one place. scene.go lets them meet, and trace.go prints the
// trace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/lockmw/go/examples/internal/flags"
)

func main() {
	switch err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "onekey:", err)
		os.Exit(1)
	}
}

// run plays the scene, and prints what happened and the trace.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var otlp string
	f := flag.NewFlagSet("onekey", flag.ContinueOnError)
	f.StringVar(&otlp, "otlp", "", "also send the spans to this OTLP collector, such as Jaeger at localhost:4317")
	if err := flags.Parse(f, args, stderr, usage); err != nil {
		return err
	}
	spans := &recorder{}
	tracer, err := newTracer(ctx, spans, otlp)
	if err != nil {
		return err
	}
	failure := newScene(stdout, tracer).play(ctx)
	if err := errors.Join(failure, tracer.Shutdown(ctx)); err != nil {
		return err
	}
	return spans.print(stdout)
}

func usage(w io.Writer) {
	_, _ = fmt.Fprintln(w, "usage: onekey [-otlp host:port]\n\nOne lock for a route, a task, a job and a message.")
}
