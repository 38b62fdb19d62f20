package engine

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

const bubbleKey = "item:1"

// A bubble is an engine and an embedded server, where time passes only when all goroutines wait.
type bubble struct {
	*testing.T
	s      *redistest.Server
	rdb    *redis.Client // sees the server
	wire   *redistest.Wire
	e      *Engine
	driver *scripttest.Driver // of the key bubbleKey
}

// inBubble runs a test in parallel with others.
func inBubble(t *testing.T, test func(b *bubble)) {
	race.Parallel(t)
	inBubbleAlone(t, test)
}

func inBubbleAlone(t *testing.T, test func(b *bubble)) {
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		b := &bubble{T: t, s: s, rdb: s.NewClient(t), wire: s.NewWire()}
		b.e = b.engine(b.wire.Use)
		b.driver = scripttest.New(t, b.rdb, bubbleKey)
		test(b)
		b.checkGone(b.e)
		_ = b.e.Close()
		time.Sleep(2 * time.Second) // until go-redis' goroutines have ended
	})
}

// engine returns the engine of another process.
func (b *bubble) engine(edit ...func(*redis.Options)) *Engine {
	cfg := DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := New(b.s.NewClient(b.T, edit...), cfg)
	if err != nil {
		b.Fatal(err)
	}
	e.probe.Disable()
	b.Cleanup(func() { _ = e.Close() })
	return e
}

// inbox is the one of the engine.
func (b *bubble) inbox() *inbox.Inbox { return b.e.inbox }

// requester wants the lock in that mode.
func (b *bubble) requester(mode core.Mode) *requester {
	a := newRequester(bubbleKey)
	a.Mode = mode
	return a
}

func (b *bubble) read() *hold {
	b.Helper()
	return b.requester(core.Read).acquire(b.T, b.e)
}

// A calling is a call of Acquire that is in progress or has returned.
type calling struct {
	*requester
	grant *hold
	err   error
	stop  context.CancelFunc
	done  chan struct{}
}

// call starts a call of Acquire for a, and returns when nothing more happens.
func (b *bubble) call(e *Engine, a *requester) *calling {
	c := &calling{requester: a, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(b.Context())
	c.stop = cancel
	b.Cleanup(cancel)
	go func() {
		defer close(c.done)
		g, err := e.Acquire(ctx, &a.Request)
		c.grant, _ = g.(*hold)
		c.err = err
	}()
	synctest.Wait()
	return c
}

func (c *calling) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (b *bubble) wantGranted(what string, c *calling) *hold {
	b.Helper()
	synctest.Wait()
	if !c.returned() || c.err != nil {
		b.Fatalf("%s: returned %t, %v", what, c.returned(), c.err)
	}
	return c.grant
}

func (b *bubble) wantWaiting(what string, c *calling) {
	b.Helper()
	synctest.Wait()
	if c.returned() {
		b.Fatalf("%s does not wait: %v, %v", what, c.grant, c.err)
	}
}

func (b *bubble) release(all ...*hold) {
	b.Helper()
	for _, h := range all {
		if _, err := h.Release(time.Second); err != nil {
			b.Errorf("Release: %v", err)
		}
	}
	synctest.Wait()
}

// sent counts the runs of each script since wire.Record, which it calls.
func (b *bubble) sent() map[string]int {
	b.Helper()
	synctest.Wait()
	n := make(map[string]int)
	for _, c := range b.wire.Sent() {
		if !c.IsScript() {
			continue
		}
		for name, s := range b.scripts() {
			if c[1] == s.SHA || c[1] == s.Source {
				n[name]++
			}
		}
	}
	b.wire.Record()
	return n
}

// scripts are those that engines send on their own, by their names.
func (b *bubble) scripts() map[string]*transport.Script {
	all := b.e.scripts.All()
	maps.DeleteFunc(all, func(name string, _ *transport.Script) bool {
		return name == "force" || strings.HasSuffix(name, "_batch")
	})
	return all
}

// wantSent checks the runs of scripts since the last check: "acquire" or "renew", once for each time it is
// named.
func (b *bubble) wantSent(what string, want ...string) {
	b.Helper()
	got, expected := b.sent(), make(map[string]int)
	for _, name := range want {
		expected[name]++
	}
	for name := range b.scripts() {
		if got[name] != expected[name] {
			b.Errorf("%s: %s was sent %d times, want %d", what, name, got[name], expected[name])
		}
	}
}

// warm loads the scripts that tests of locks send, and waits until the engine is subscribed.
func (b *bubble) warm() {
	b.Helper()
	b.warmWith("acquire", "acquire_all", "peek", "poll", "renew", "report_waiters", "release", "downgrade", "cancel")
}

// warmPermits does the same for permits.
func (b *bubble) warmPermits() {
	b.Helper()
	b.warmWith("peek", "permit_acquire", "permit_poll", "permit_release", "permit_cancel")
}

func (b *bubble) warmWith(names ...string) {
	b.Helper()
	scripts, sources := b.scripts(), make(map[string]string)
	for _, name := range names {
		sources[scripts[name].SHA] = scripts[name].Source
	}
	b.s.Know(b.T, sources)
	b.e.inboxes.Use(b.inbox())
	synctest.Wait()
	if !b.inbox().IsLive() {
		b.Fatal("not subscribed")
	}
	b.wire.Record()
}

// readers are the ids that the server has of readers.
func (b *bubble) readers() map[string]scripttest.Reader {
	b.Helper()
	synctest.Wait()
	return b.driver.Look().Readers()
}

// checkGone checks that nothing is left in an engine without calls and holds.
func (b *bubble) checkGone(e *Engine) {
	b.Helper()
	synctest.Wait()
	for i := range e.shards {
		if e.closing.Load() {
			break // it forgets them all
		}
		sh := &e.shards[i]
		sh.mu.Lock()
		for key := range sh.entries {
			b.Errorf("an entry is left: %s", key)
		}
		sh.mu.Unlock()
	}
	e.ids.mu.Lock()
	for n, v := range e.ids.m {
		b.Errorf("the id %d is left: %T", n, v)
	}
	e.ids.mu.Unlock()
	for _, owner := range e.schedule.Owners() {
		if e.closing.Load() {
			break // what the server has not confirmed
		}
		switch owner.(type) {
		case *lease, *request, *grantBatch, *release, *waiterReporter, *cancellation, *nested: // the others are of no lock
			b.Errorf("a timer is left: of a %T", owner)
		}
	}
	if n := e.active.Len(); n != 0 {
		b.Errorf("%d grants are not over", n)
	}
}

// wantFree checks that the lock is neither held nor waited for.
func (b *bubble) wantFree() {
	b.Helper()
	synctest.Wait()
	if sc := b.driver.Look(); sc.Holder.Exists() || sc.Queue.Exists() || sc.Tickets.Exists() {
		b.Errorf("the lock is not free: %v", sc)
	}
}
