package ways

import (
	"context"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// LostReplies is a go-redis hook that drops the replies of commands with a marked context.
type LostReplies struct{}

type losingKey struct{}

// losingReply marks the context once, if the call has LosesReply.
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

// ProcessHook runs the command and then reports a broken connection.
func (LostReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		// Commands that set up a new connection have the same context, so only scripts are affected.
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
