// Bench compares lockmw with other lock libraries on the same Redis, and with its goals. README.md
// describes the workloads.
//
//	go run . [-quick] [-json] [-work list] [-libs list]
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/workload"
)

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // commands return the same errors
	crew.Main(workload.Work(library.All(), workload.All()))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	b := bench{
		libraries: library.All(), workloads: workload.All(),
		grace: 30 * time.Second, out: os.Stdout, errs: os.Stderr,
	}
	code := b.main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
