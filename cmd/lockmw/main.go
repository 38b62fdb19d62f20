// Lockmw shows who holds Redis locks and who waits for them, and releases locks by force.
//
//	lockmw ls                        list all locks, the longest wait first
//	lockmw show KEY                  show one lock: holders, queue, kept places
//	lockmw watch KEY                 follow one lock, an event per line
//	lockmw unlock KEY --holder ID    release exactly one hold
//	lockmw top                       a live screen of the busiest keys
//	lockmw verify                    try the promises of locks on a Redis
//
// The flag --redis, or the variable LOCKMW_REDIS, sets the address of Redis. The manual is
// https://github.com/lockmw/go/blob/main/docs/command.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/cmd/lockmw/internal/verify"
)

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // commands return the same errors
	verify.Main(connectWorker)
	signal.Ignore(syscall.SIGPIPE) // `lockmw ls | head` must not fail
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, console{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}, os.Args[1:])
	stop()
	os.Exit(status)
}
