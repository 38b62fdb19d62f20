package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// Many tickets of a key cost few commands.
func TestQuestionsAboutAKeyGoOutTogether(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		first := b.requester(core.Write)
		first.Lease = 10 * time.Minute
		h := first.acquire(b.T, other)
		const n = script.MaxPolled + 70
		var calls []*calling
		for range n {
			calls = append(calls, b.call(b.e, b.requester(core.Fair)))
		}
		time.Sleep(2 * script.PollInterval)
		b.sent()
		const rounds = 10
		time.Sleep(rounds * script.PollInterval)
		sent := b.sent()
		if sent["peek"] < 2*rounds-2 || sent["peek"] > 2*rounds+6 || sent["poll"] != 0 {
			b.Errorf("%d peeks and %d polls for %d tickets in %d rounds", sent["peek"], sent["poll"], n, rounds)
		}
		for _, c := range calls {
			b.wantWaiting("one of many", c)
		}
		for _, c := range calls[1:] {
			c.stop()
		}
		b.release(h)
		b.release(b.wantGranted("the first", calls[0]))
		b.wantFree()
		b.checkGone(other)
	})
}

// Each ticket of a group gets the answer that is for it.
func TestAPollThatGrantsOneOfMany(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.requester(core.Write)
		first.Fixed = true
		first.acquire(b.T, b.engine())
		calls := []*calling{}
		for range 5 {
			calls = append(calls, b.call(b.e, b.requester(core.Fair)))
		}
		lost := calls[2]
		id := b.driver.Look().Writers()[2]
		b.rdb.ZRem(b.Context(), b.driver.Keys.Queue(), id)
		b.rdb.HDel(b.Context(), b.driver.Keys.Tickets(), id)
		time.Sleep(script.PollInterval + pollSlack)
		if ids := b.driver.Look().Writers(); len(ids) != 5 || ids[2] == id {
			b.Errorf("the queue is %q, and %s was lost", ids, id)
		}
		time.Sleep(scripttest.Lease)
		for i, c := range calls {
			h := b.wantGranted("the next one", c)
			if c == lost && h.lease.id.String() == id {
				b.Error("a lost ticket's id is used again")
			}
			if i+1 < len(calls) {
				b.wantWaiting("the one after it", calls[i+1])
			}
			b.release(h)
		}
		b.wantFree()
	})
}

// The lock is granted in the instant in which the caller gives up. It has its place when it comes back.
func TestAPlaceIsKeptIfTheGrantComesTooLate(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		held := b.requester(core.Fair).acquire(b.T, other)
		a := b.requester(core.Fair)
		a.Place, a.KeepPlace = "t", time.Minute
		ctx, cancel := context.WithCancel(b.Context())
		w, news := oneWaiter(ctx, &a.Request)
		c := b.e.lockCohort(&a.Request)
		send, err := c.enqueue(w, readClock())
		if err != nil {
			b.Fatal(err)
		}
		c.unlock()
		b.e.sender.Start(send)
		<-news // that it waits
		b.release(held)
		<-news // granted
		cancel()
		if _, err := w.Await(c, nil, nil); !errors.Is(err, core.ErrBusy) {
			b.Errorf("giving up: %v", err)
		}
		b.wantFree()
		if sc := b.driver.Look(); !sc.Kept.Exists() {
			b.Error("its place is not kept")
		}
		b.checkGone(other)
	})
}
