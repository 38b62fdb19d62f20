package transport_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

// Locks share a command only where all keys are known to be on one server.
func TestTwoServersAreNotTakenForOne(t *testing.T) {
	s := redistest.Redis(t)
	if !transport.IsOneServer(t.Context(), s.NewClient(t), "lockmw") {
		t.Error("a plain server is not recognized")
	}
	// A proxy that spreads scripts over two servers by their first keys.
	both := []*redis.Client{s.NewClient(t), redistest.Redis(t).NewClient(t)}
	n := 0
	proxied := s.NewClient(t)
	proxied.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			n++
			if err := both[n%2].Process(ctx, cmd); err != nil {
				return err
			}
		}
		return nil
	}))
	if transport.IsOneServer(t.Context(), proxied, "lockmw") {
		t.Error("two servers are taken for one")
	}
	if transport.IsOneServer(t.Context(), redistest.Mini(t).NewClient(t), "lockmw") {
		t.Error("a server without an id is taken for one")
	}
	nameless := s.NewClient(t)
	nameless.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		for _, cmd := range cmds {
			if cmd.Name() == "eval" {
				cmd.Args()[1] = "return string.rep('0', 40)"
			}
		}
		return send()
	}))
	if transport.IsOneServer(t.Context(), nameless, "lockmw") {
		t.Error("servers with an id of zeros are taken for one")
	}
}

// A pipelineHook runs pipelines.
type pipelineHook func(ctx context.Context, cmds []redis.Cmder) error

func (pipelineHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h pipelineHook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return redis.ProcessPipelineHook(h)
}
