package ways

import (
	"context"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// LostReplies is a hook of a redis client that loses the replies of those commands whose context says so.
type LostReplies struct{}

type losingKey struct{}

// losingReply has one reply lost, if a fault script wants that of the call.
func (c *Call) losingReply(ctx context.Context) context.Context {
	if !c.LosesReply {
		return ctx
	}
	c.LosesReply = false
	return context.WithValue(ctx, losingKey{}, true)
}

// DialHook does nothing.
func (LostReplies) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook lets the command be carried out, and says that the connection broke before the reply.
func (LostReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		// The commands that make a new connection have the same context.
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && ctx.Value(losingKey{}) != nil {
			err = io.ErrUnexpectedEOF
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook does nothing.
func (LostReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
