// With runs a command next to a redis-server, whose address is in the environment:
//
//	go run ./internal/test/redisserver/with sh -c 'redis-cli -u "redis://$REDIS_ADDR" ping'
//
// The exit code is the command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/lockmw/go/internal/test/redisserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.Exited() {
		os.Exit(failed.ExitCode())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(ctx context.Context, command []string) error {
	if len(command) == 0 {
		return errors.New("usage: with command [argument ...]")
	}
	s, err := redisserver.Start(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "REDIS_ADDR="+s.Addr())
	return cmd.Run()
}
