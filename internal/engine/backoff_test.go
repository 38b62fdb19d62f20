package engine

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
)

// countDials waits until the engine is subscribed, and counts its tries to connect.
func (b *bubble) countDials() *atomic.Int64 {
	b.Helper()
	var dials atomic.Int64
	_ = b.e.Close()
	b.e = b.engine(func(opts *redis.Options) {
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return b.wire.Dial(ctx, network, addr)
		}
	})
	b.contend()
	return &dials
}

// contend has a call wait for the lock, and get it.
func (b *bubble) contend() {
	b.Helper()
	b.driver.Lock("theirs")
	c := b.call(b.e, b.requester(core.Exclusive))
	b.wantWaiting("the call", c)
	b.driver.Release("theirs")
	b.release(b.wantGranted("the call", c))
}

func TestAnIdleProcessDoesNotConnectToAnUnreachableServer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		dials := b.countDials()
		time.Sleep(releaseLost) // until then it asks whether the server has lost its releases
		before := dials.Load()
		b.wire.Cut()
		time.Sleep(time.Hour)
		if n := dials.Load() - before; n > 4 {
			b.Errorf("it has tried to connect %d times in an hour", n)
		}
		b.wire.Restore()
		b.contend()
		time.Sleep(2 * inbox.MinRetryPause)
		if !b.inbox().IsLive() {
			b.Error("it is not subscribed again")
		}
	})
}

func TestAHolderTriesToConnectAtLongerAndLongerPauses(t *testing.T) {
	inBubble(t, func(b *bubble) {
		dials := b.countDials()
		a := b.requester(core.Exclusive)
		a.Lease = time.Hour
		h := a.acquire(b.T, b.e)
		before := dials.Load()
		b.wire.Cut()
		time.Sleep(10 * time.Minute)
		if n := dials.Load() - before; n < 500 || n > 1500 {
			b.Errorf("it has tried to connect %d times in ten minutes", n)
		}
		b.wire.Restore()
		time.Sleep(2 * inbox.MaxRetryPause)
		if !b.inbox().IsLive() {
			b.Error("it is not subscribed again")
		}
		b.release(h)
	})
}
