package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// A hangingHook lets pipelines with a word in them hang until it ends, whatever their contexts say.
type hangingHook struct {
	word  string
	ended context.Context
}

func (h hangingHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h hangingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h hangingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if strings.Contains(fmt.Sprint(cmd.Args()), h.word) {
				<-h.ended.Done()
			}
		}
		return next(ctx, cmds)
	}
}

// A twoNodeCluster has the keys with the word "hung" at a node of their own.
type twoNodeCluster struct {
	*redis.Client // of the one server that plays both
	other         *redis.Client
}

func (c *twoNodeCluster) MasterForKey(_ context.Context, key string) (*redis.Client, error) {
	if strings.Contains(key, "hung") {
		return c.other, nil
	}
	return c.Client, nil
}

func (c *twoNodeCluster) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	_ = f(ctx, c.Client)
	return f(ctx, c.other)
}

// hangs has pipelines with a word in them hang for longer than a lease, while a call for the key "hung" waits, and checks that
// another lock is not lost.
func (b *bubble) hangs(rdb *redis.Client, word string, e *Engine) {
	b.Helper()
	ended, end := context.WithCancel(b.Context())
	defer end()
	hung := b.requester(core.Exclusive)
	hung.Key = "hung"
	other := hung.acquire(b.T, e)
	waiting := b.requester(core.Fair)
	waiting.Key = "hung"
	waits := b.call(e, waiting)
	h := b.requester(core.Exclusive).acquire(b.T, e)
	rdb.AddHook(hangingHook{word, ended})
	time.Sleep(4 * h.Req.Lease)
	if h.Expired() {
		b.Error("a lock is lost that does not hang")
	} else {
		b.release(h)
	}
	end()
	waits.stop()
	_, _ = other.Release(time.Second) // it may be lost
	time.Sleep(time.Minute)
}

func TestANodeThatHangsTakesNoRenewalsFromOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := &twoNodeCluster{b.s.NewClient(b.T), b.s.NewClient(b.T)}
		cfg := DefaultConfig()
		cfg.Logger = slog.New(slog.DiscardHandler)
		e, err := New(c, cfg)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		e.probe.Disable()
		b.hangs(c.Client, "hung", e)
	})
}

// Connections may hang though the server is well, after a firewall has forgotten them.
func TestPollsThatHangTakeNoRenewals(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.hangs(b.e.rdb.(*redis.Client), b.e.scripts.All()["poll"].SHA, b.e)
	})
}
