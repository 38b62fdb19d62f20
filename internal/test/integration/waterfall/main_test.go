package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

func TestMain(m *testing.M) {
	if how := os.Getenv("WATERFALL_SCENE"); how != "" {
		if err := scene(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.VerifyMain(m.Run)
}

// scene is the scene to draw: one call waits for another.
func scene(how string) error {
	ctx := context.Background()
	if how == "fail" {
		return errors.New("it failed")
	}
	exporter, err := otlptracegrpc.New(ctx) // to OTEL_EXPORTER_OTLP_ENDPOINT
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	observer := tracing.New(tracing.WithTracerProvider(provider))
	locks := lockmw.NewLocal(lockmw.WithObserver(observer))
	_, first, err := locks.Lock(ctx, "item:7")
	if err != nil {
		return err
	}
	released := make(chan error)
	release := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) {
			go func() { released <- first.Unlock() }()
		},
	})
	_, second, err := locks.Lock(ctx, "item:7", release)
	if err != nil {
		return err
	}
	return errors.Join(<-released, second.Unlock(), provider.Shutdown(ctx))
}

// paint runs the program on the scene of this test binary.
func paint(t *testing.T, how string) (file string, err error) {
	t.Helper()
	t.Setenv("WATERFALL_SCENE", how)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "docs", "picture.svg")
	return file, run(t.Context(), []string{"-o", file, "--", path, "{addr}"}, t.Output())
}

func TestAPictureOfARun(t *testing.T) {
	file, err := paint(t, "play")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, bars, arrows := read(t, picture)
	classes := make(map[string]int)
	for _, b := range bars {
		classes[b.class]++
	}
	if classes["wait"] != 2 || classes["hold"] != 2 || len(arrows) != 1 {
		t.Errorf("bars %v and %d arrows, want 2 waits, 2 holds and 1 arrow", classes, len(arrows))
	}
}

func TestAFailedRunDrawsNothing(t *testing.T) {
	file, err := paint(t, "fail")
	if err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the picture is there: %v", err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-x"}, {"-o", t.TempDir() + "/a.svg", "--", "no such command"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
