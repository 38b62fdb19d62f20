package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

// A slowPipeline is a hook that lets a pipeline of scripts take a little more than a second, so that it does not end when Close
// looks. The first ones pass, and the others fail.
type slowPipeline struct {
	redis.Hook

	passes atomic.Int32
	failed error
}

func (s *slowPipeline) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *slowPipeline) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *slowPipeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" { // of a new connection
			return next(ctx, cmds)
		}
		time.Sleep(time.Second + 7*time.Millisecond)
		if s.passes.Add(-1) >= 0 {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(s.failed)
		}
		return s.failed
	}
}

// slowDown makes the next pipelines of the engine slow, and the later ones fail.
func (b *bubble) slowDown(passes int32, failed error) {
	s := &slowPipeline{failed: failed}
	s.passes.Store(passes)
	b.e.rdb.AddHook(s)
}

// hold takes n locks of other keys.
func (b *bubble) hold(n int) {
	b.Helper()
	for i := range n {
		newRequester(fmt.Sprint("held:", i)).acquire(b.T, b.e)
	}
}

// holders counts the locks that the server has.
func holders(t *testing.T, rdb redis.UniversalClient) (n int) {
	t.Helper()
	keys, err := redistest.Keys(t.Context(), rdb, "lockmw")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if rdb.Type(t.Context(), key).Val() == "hash" {
			n++
		}
	}
	return n
}

func TestCloseContinuesWhileTheServerConfirms(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.hold(2000) // more pipelines than are sent in transport.EndingPatience
		b.slowDown(1000, nil)
		start := time.Now()
		if err := b.e.Close(); err != nil {
			b.Error(err)
		}
		if n := holders(b.T, b.rdb); n > 0 {
			b.Errorf("%d locks are left", n)
		}
		if took := time.Since(start); took < 2*transport.EndingPatience {
			b.Fatalf("Close took only %v: nothing was shown", took)
		}
	})
}

// Cancels one by one took so long that Close gave up most of a hundred thousand locks.
func TestCloseReleasesManyLocksByOneExecution(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const many = 1000
		b.e.sender.SetBatching(true)
		b.hold(many)
		b.wire.Record()
		b.e.sender.Pause()
		closed := make(chan error, 1)
		go func() { closed <- b.e.Close() }()
		synctest.Wait()
		if n := b.e.sender.Gathered(); n != many {
			b.Errorf("%d cancels have gathered, want %d", n, many)
		}
		b.e.sender.Resume()
		if err := <-closed; err != nil {
			b.Error(err)
		}
		runs := 0
		for _, c := range b.wire.Sent() {
			if c.IsScript() {
				runs++
			}
		}
		if n := holders(b.T, b.rdb); n > 0 || runs > many/20 {
			b.Errorf("%d locks are left after %d runs of scripts for %d", n, runs, many)
		}
	})
}

func TestCloseReportsLocksThatAreLeft(t *testing.T) {
	const many = 800 // more than three pipelines
	for name, failed := range map[string]replyError{
		"for now":  "LOADING Redis is loading the dataset in memory",
		"for good": "NOPERM this user has no permissions to run the 'evalsha' command",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				var log bytes.Buffer
				b.e.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				b.hold(many)
				b.slowDown(3, failed)
				err := b.e.Close()
				n := holders(b.T, b.rdb)
				if n == 0 || n == many {
					b.Fatalf("%d locks are left: nothing was shown", n)
				}
				if words := fmt.Sprintf("locks not released: %d, ", n); !errors.Is(err, core.ErrUnavailable) ||
					!strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), string(failed)) {
					b.Errorf("%v, want ErrUnavailable that says %q and %q", err, words, failed)
				}
				if got := log.String(); strings.Count(got, "Close could not release all locks") != 1 || !strings.Contains(got, fmt.Sprintf("locks=%d ", n)) {
					b.Errorf("the log does not say once that %d are left: %s", n, got)
				}
				if err := b.e.Close(); err != nil {
					b.Errorf("a second Close: %v", err)
				}
			})
		})
	}
}

// The server gives a lock whose lease has expired to others.
func TestCloseDoesNotReportExpiredLeases(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.hold(3)
		b.wire.Cut()
		time.Sleep(40 * time.Second)
		if err := b.e.Close(); err != nil {
			b.Error(err)
		}
		b.wire.Restore()
	})
}

func TestCloseDoesNotReportOldFailedReleases(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		b.s.Mini.SetError("NOPERM this user has no permissions")
		_, err := h.Release(b.e.cfg.UnlockTimeout)
		synctest.Wait() // a cancellation fails as well
		b.s.Mini.SetError("")
		b.wantUnavailable("Release", err, "NOPERM")
		time.Sleep(2 * h.Req.Lease)
		if err := b.e.Close(); err != nil {
			b.Error(err)
		}
	})
}

// Shutdown counts holds only, and Close may follow it immediately.
func TestCloseWaitsForAReleaseThatIsNotSentYet(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		_, r, err := h.beginRelease(b.e.cfg.UnlockTimeout)
		if err != nil {
			b.Fatal(err)
		}
		if err := b.e.Shutdown(b.Context()); err != nil {
			b.Error(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- b.e.Close() }()
		time.Sleep(transport.EndingPatience / 2)
		synctest.Wait()
		if len(closed) > 0 {
			b.Fatal("Close has returned")
		}
		if err := r.run(b.e.cfg.UnlockTimeout); err != nil {
			b.Error(err)
		}
		if err := <-closed; err != nil {
			b.Error(err)
		}
		b.wantFree()
	})
}

func TestShutdownSaysHowManyHoldsHaveNotEnded(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.hold(3)
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		if err := b.e.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not ended: 3: ") {
			b.Errorf("%v, want DeadlineExceeded that says that 3 holds have not ended", err)
		}
		if err := b.e.Close(); err != nil {
			b.Error(err)
		}
	})
}

// The next caller's request ends such a hold, and Close ends that caller's wait.
func TestCloseReportsALockThatWasHandedOver(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		there, here := b.waitersOf(other, 1), b.waitersOf(b.e, 1)
		h.lease.passes = b.e.cfg.LocalPasses // it is the others' turn
		b.s.Mini.SetError("LOADING Redis is loading the dataset in memory")
		b.release(h)
		if err := b.e.Close(); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "locks not released: 1, ") {
			b.Errorf("Close: %v", err)
		}
		b.s.Mini.SetError("")
		b.stop(here)
		b.stop(there)
	})
}
