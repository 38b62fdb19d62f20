// Lockmw shows who holds locks and who waits for them, and takes a lock away from its holder.
//
//	lockmw ls                        all locks, the longest wait first
//	lockmw show KEY                  one lock: holders, queue, kept places
//	lockmw watch KEY                 its life, line by line
//	lockmw unlock KEY --holder ID    release exactly that hold
//	lockmw top                       a live screen of the busiest keys
//
// It says with --redis where Redis is, or in LOCKMW_REDIS. https://github.com/lockmw/go/blob/main/docs/command.md describes it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // errors are returned, too
	signal.Ignore(syscall.SIGPIPE)         // `lockmw ls | head` is no failure
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, console{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(status)
}
