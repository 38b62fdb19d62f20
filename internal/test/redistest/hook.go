package redistest

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Hook is for AddHook: it receives each command of a client, or all commands of a pipeline. send passes them on. An error
// that it returns without calling send is their error.
type Hook func(ctx context.Context, cmds []redis.Cmder, send func() error) error

// DialHook implements redis.Hook.
func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.run(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.run(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

func (h Hook) run(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	sent := false
	err := h(ctx, cmds, func() error { sent = true; return send() })
	if err != nil && !sent {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return err
}

// Says returns a Hook that replaces the answer to INFO: the lines are separated by spaces.
func Says(lines string) Hook {
	return func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if info, ok := cmds[0].(*redis.StringCmd); ok && len(cmds) == 1 && info.Name() == "info" {
			info.SetVal(strings.ReplaceAll(lines, " ", "\r\n") + "\r\n")
			return nil
		}
		return send()
	}
}
