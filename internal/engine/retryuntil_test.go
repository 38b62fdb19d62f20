package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// changes are what holders ask the server for while they hold a lock.
var changes = map[string]func(ctx context.Context, h *hold) error{
	"Extend":    func(ctx context.Context, h *hold) error { return h.Extend(ctx, h.Req.Lease) },
	"Downgrade": func(ctx context.Context, h *hold) error { return h.Downgrade(ctx) },
}

// inChanges runs test for each change of a write hold.
func inChanges(t *testing.T, in func(t *testing.T, test func(b *bubble, words string, begin, end func())),
	test func(b *bubble, words string, begin, end func(), h *hold, change func(ctx context.Context) error),
) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bubble, words string, begin, end func()) {
				h := b.requester(core.Write).acquire(b.T, b.e)
				test(b, words, begin, end, h, func(ctx context.Context) error { return change(ctx, h) })
			})
		})
	}
}

func inPassingOutages(t *testing.T, test func(b *bubble, words string, begin, end func())) {
	inOutages(t, temporaryReplies, test)
	refused(t, test)
	t.Run("no answer", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			b.warm()
			test(b, core.ErrNoAnswer.Error(), b.wire.Silence, b.wire.Restore)
		})
	})
}

func TestAHolderWaitsForTheServer(t *testing.T) {
	inChanges(t, inPassingOutages, func(b *bubble, words string, begin, end func(), h *hold, change func(ctx context.Context) error) {
		begin()
		done := make(chan error, 1)
		go func() { done <- change(b.Context()) }()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if len(done) > 0 {
			b.Fatalf("it has returned: %v", <-done)
		}
		end()
		start := time.Now()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if took := time.Since(start); took > tryTimeout+maxTryPause {
			b.Errorf("it returned %v after the server can answer", took)
		}
		b.release(h)
		b.wantFree()
	})
}

func TestAHolderWhoseContextEndsReceivesTheLastReply(t *testing.T) {
	inChanges(t, inPassingOutages, func(b *bubble, words string, begin, end func(), h *hold, change func(ctx context.Context) error) {
		begin()
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
		defer cancel()
		err := change(ctx)
		if ctx.Err() == nil || !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrWrongType) ||
			!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), words) {
			b.Errorf("%v, want %q", err, words)
		}
		end()
		b.release(h)
		b.wantFree()
	})
}

func TestAHolderWaitsForTheServerNoLongerThanItHolds(t *testing.T) {
	inChanges(t, inPassingOutages, func(b *bubble, _ string, begin, end func(), h *hold, change func(ctx context.Context) error) {
		begin()
		deadline := h.Deadline()
		if err := change(b.Context()); !errors.Is(err, core.ErrLost) {
			b.Errorf("%v, want ErrLost", err)
		}
		if late := clock.Since(deadline); late < 0 || late > tryTimeout+maxTryPause {
			b.Errorf("it returned %v after the hold's end", late)
		}
		end()
		time.Sleep(2 * maxCancelDelay)
		b.wantFree()
	})
	t.Run("released", func(t *testing.T) {
		inChanges(t, inPassingOutages, func(b *bubble, _ string, begin, end func(), h *hold, change func(ctx context.Context) error) {
			begin()
			done := make(chan error, 1)
			go func() { done <- change(b.Context()) }()
			time.Sleep(3 * time.Second)
			_, _ = h.Release(b.e.cfg.UnlockTimeout)
			if err := <-done; !errors.Is(err, core.ErrNotHeld) {
				b.Errorf("%v, want ErrNotHeld", err)
			}
			end()
			time.Sleep(2 * maxCancelDelay)
			b.wantFree()
		})
	})
}

func TestAHolderThatWaitsForTheServerIsNotifiedOfClose(t *testing.T) {
	inChanges(t, refused, func(b *bubble, _ string, begin, end func(), h *hold, change func(ctx context.Context) error) {
		begin()
		done := make(chan error, 1)
		go func() { done <- change(b.Context()) }()
		time.Sleep(3 * time.Second)
		closed := make(chan error, 1)
		go func() { closed <- b.e.Close() }()
		if err := <-done; !errors.Is(err, core.ErrClosed) {
			b.Errorf("%v, want ErrClosed", err)
		}
		end()
		if err := <-closed; err != nil {
			b.Error(err)
		}
	})
}
