package transport

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// WithoutRepeats returns rdb, whose scripts go-redis no longer repeats after a lost answer. So the caller learns of the loss. A
// Scripter that is not a client of go-redis is returned as it is.
func WithoutRepeats(rdb redis.Scripter) redis.Scripter {
	if p, ok := rdb.(processor); ok {
		return onceScripter{rdb, p}
	}
	return rdb
}

// MayHaveRun reports whether a command with this error may have been executed nevertheless: it was sent, and its answer was lost.
func MayHaveRun(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return false
	}
	return err != nil && !IsReply(err) && !isClosed(err) && !IsPoolTimeout(err)
}

type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

type onceScripter struct {
	redis.Scripter
	client processor
}

// Eval implements redis.Scripter.
func (o onceScripter) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return o.run(ctx, "eval", script, keys, args)
}

// EvalSha implements redis.Scripter.
func (o onceScripter) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return o.run(ctx, "evalsha", sha1, keys, args)
}

func (o onceScripter) run(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
	all := []any{name, script, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(FirstKey)
	}
	_ = o.client.Process(ctx, noRetryCmd{cmd}) // the error is cmd's
	return cmd
}
