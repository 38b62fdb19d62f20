package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/test/redistest"
)

// oneWaiter returns the waiter of one call, and what signals its news.
func oneWaiter(ctx context.Context, r *core.Request) (*localq.Waiter, <-chan struct{}) {
	all, news := localq.NewWaiters(ctx, []*core.Request{r}, clock.Now())
	return all[0], news
}

func TestACallerThatHasGoneDoesNotKeepTheKeyForItsMinimumHold(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	e := newEngine(t, rdb)
	gone := newRequester("item:1")
	gone.MinHold = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	w, news := oneWaiter(ctx, &gone.Request)
	c := e.lockCohort(&gone.Request)
	send, err := c.enqueue(w, readClock())
	if err != nil {
		t.Fatal(err)
	}
	c.unlock()
	e.sender.Start(send)
	<-news // granted, in the instant in which it gives up
	cancel()
	if _, err := w.Await(c, nil, nil); !errors.Is(err, context.Canceled) || !errors.Is(err, core.ErrBusy) {
		t.Errorf("giving up: %v", err)
	}
	eventually(t, "the key is still taken", func() bool {
		return rdb.Exists(t.Context(), c.keys.Holder()).Val() == 0
	})
}
