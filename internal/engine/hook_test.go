package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A scriptHook is a hook of a redis client that changes what becomes of its commands, but not of pipelines.
type scriptHook func(next redis.ProcessHook) redis.ProcessHook

func (scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return h(next) }

// replace has the next n answers to a script of e replaced by an error, as if each had been cut off after its last write.
func (b *bubble) replace(e *Engine, name, reply string, n int32) {
	var left atomic.Int32
	left.Store(n)
	sha, by := e.scripts.All()[name].SHA, replyError(reply)
	e.rdb.AddHook(scriptHook(func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error {
			err := next(ctx, cmd)
			if len(cmd.Args()) > 1 && cmd.Args()[1] == sha && err == nil && left.Add(-1) >= 0 {
				cmd.SetErr(by)
				return by
			}
			return err
		}
	}))
}

// A replyError is what the server said.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// loseCounter deletes the server's counter whenever it was raised.
func (b *bubble) loseCounter() {
	raise := b.e.scripts.All()["raise"]
	b.e.rdb.AddHook(scriptHook(func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error {
			err := next(ctx, cmd)
			if slices.Contains(cmd.Args(), any(raise.SHA)) || slices.Contains(cmd.Args(), any(raise.Source)) {
				b.rdb.Del(ctx, b.driver.Keys.Fence())
			}
			return err
		}
	}))
}
