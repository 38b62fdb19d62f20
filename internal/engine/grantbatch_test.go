package engine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A lineUp is calls of one process that are queued directly behind one another while another process holds the lock.
type lineUp struct {
	*bubble
	other *Engine
	held  *hold // of other
	calls []*calling
}

func inLine(t *testing.T, mode core.Mode, n int, test func(b *lineUp)) {
	inBubble(t, func(b *bubble) {
		b.warm()
		l := &lineUp{bubble: b, other: b.engine()}
		l.held = b.requester(mode).acquire(b.T, l.other)
		for range n {
			l.calls = append(l.calls, b.call(b.e, b.requester(mode)))
		}
		b.sent()
		test(l)
		b.wantFree()
		b.checkGone(l.other)
	})
}

// begin releases the lock, and returns the hold of the first in line.
func (b *lineUp) begin() *hold {
	b.Helper()
	time.Sleep(time.Millisecond) // microseconds have to pass that tokens are taken from
	b.release(b.held)
	return b.wantGranted("the first", b.calls[0])
}

// follow releases holds, one after the other, and checks that the calls have the lock in this order.
func (b *lineUp) follow(h *hold, calls ...*calling) {
	b.Helper()
	for i, c := range calls {
		last := h.Token()
		b.release(h)
		h = b.wantGranted("the next one", c)
		if h.Token() <= last {
			b.Errorf("number %d has token %d after %d", i, h.Token(), last)
		}
		for _, behind := range calls[i+1:] {
			b.wantWaiting("one behind it", behind)
		}
	}
	b.release(h)
}

func (b *lineUp) queue() []string {
	synctest.Wait()
	return b.driver.Look().Writers()
}

func TestAGrantBatchNeedsNoCommandBetweenItsHolds(t *testing.T) {
	for _, mode := range []core.Mode{core.Fair, core.Write} {
		t.Run(mode.String(), func(t *testing.T) {
			inLine(t, mode, 5, func(b *lineUp) {
				h := b.begin()
				b.sent()
				for _, c := range b.calls[1:] {
					last := h.Token()
					b.release(h)
					next := b.wantGranted("the next one", c)
					if next.lease != h.lease || next.Token() != last+1 {
						b.Errorf("it has token %d after %d, by the same lease: %t", next.Token(), last, next.lease == h.lease)
					}
					h = next
				}
				b.wantSent("four passes")
				b.release(h)
				b.wantSent("the end of the batch", "release")
			})
		})
	}
}

// Calls whose holds end in other ways than by a plain release, or that have different leases, are in no grant batch.
func TestSomeCallsJoinNoGrantBatch(t *testing.T) {
	for what, edit := range map[string]func(*requester){
		"a fixed lease":  func(a *requester) { a.Fixed = true },
		"a minimum hold": func(a *requester) { a.MinHold = time.Second },
		"a maximum hold": func(a *requester) { a.MaxHold = time.Minute },
		"a kept place":   func(a *requester) { a.Place, a.KeepPlace = "t", time.Second },
		"a job":          func(a *requester) { a.Once = true },
		"a leader":       func(a *requester) { a.Leads = true },
		"another lease":  func(a *requester) { a.Lease /= 2 },
	} {
		t.Run(what, func(t *testing.T) {
			inLine(t, core.Fair, 1, func(b *lineUp) {
				odd := b.requester(core.Fair)
				edit(odd)
				calls := slices.Concat(b.calls, []*calling{b.call(b.e, odd), b.call(b.e, b.requester(core.Fair))})
				h := b.begin()
				b.sent()
				b.release(h)
				b.wantSent(what, "release")
				h = b.wantGranted("one with "+what, calls[1])
				b.release(h)
				if what == "a minimum hold" {
					time.Sleep(2 * time.Second)
				}
				b.release(b.wantGranted("one after "+what, calls[2]))
				time.Sleep(2 * time.Second) // a kept place ends
			})
		})
	}
}

// Served members are shown to an Inspector for a short time only.
func TestTheServedLeaveTheQueue(t *testing.T) {
	inLine(t, core.Fair, 4, func(b *lineUp) {
		h := b.begin()
		ids := b.queue()
		for i := range 3 {
			b.release(h)
			h = b.wantGranted("the next one", b.calls[i+1])
			time.Sleep(2 * servedFor)
			if got, want := b.queue(), ids[i+1:]; !slices.Equal(got, want) {
				b.Errorf("after %d passes the queue is %q, want %q", i+1, got, want)
			}
		}
		b.release(h)
	})
}

func TestManyWhoAreServedLeaveTheQueue(t *testing.T) {
	const many = maxServed + 3
	inLine(t, core.Fair, many+1, func(b *lineUp) {
		h := b.begin()
		for _, c := range b.calls[1:] {
			b.release(h)
			h = b.wantGranted("the next one", c)
			if n, left := len(b.queue()), len(b.e.ids.requests())-len(h.lease.grantBatch.served); n >= left+maxServed {
				b.Errorf("%d are in the queue, and %d wait", n, left)
			}
		}
		b.release(h)
	})
}

// A member whose ticket was lost has a new request, which is in no grant batch yet.
func TestAMemberOfAGrantBatchLosesItsTicket(t *testing.T) {
	inLine(t, core.Fair, 2, func(b *lineUp) {
		h := b.begin()
		id := b.queue()[0]
		b.rdb.ZRem(b.Context(), b.driver.Keys.Queue(), id)
		b.rdb.HDel(b.Context(), b.driver.Keys.Tickets(), id)
		time.Sleep(2 * script.PollInterval)
		if queue := b.queue(); len(queue) != 1 || queue[0] == id {
			b.Fatalf("the queue is %q, and %s was lost", queue, id)
		}
		b.release(h)
		second := b.wantGranted("the second", b.calls[1])
		if second.lease == h.lease {
			b.Error("it has the lease of the first")
		}
		b.release(second)
	})
}

// A copy of an acquire arrives after its call has held the lock.
func TestALateCopyOfAMembersAcquireIsRefused(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		held := b.requester(core.Fair).acquire(b.T, other)
		first := b.call(b.e, b.requester(core.Fair))
		b.wire.LoseReply(b.e.scripts.All()["acquire"].SHA)
		second := b.call(b.e, b.requester(core.Fair))
		b.wantWaiting("one that was asked for twice", second)
		id := b.driver.Look().Writers()[1]
		time.Sleep(time.Millisecond)
		b.release(held)
		b.release(b.wantGranted("the first", first))
		b.release(b.wantGranted("the second", second))
		if got, err := b.driver.AcquireOnce(scripttest.Acquire{ID: id, Mode: core.Fair}); err != nil || got.Outcome != script.Over {
			b.Errorf("a late copy: %+v, %v", got, err)
		}
		b.wantFree()
		b.checkGone(other)
	})
}

// A call whose acquire is not answered yet may be sent again. The lock is not passed to it.
func TestTheLockIsNotPassedToACallWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		held := b.requester(core.Fair).acquire(b.T, other)
		first := b.call(b.e, b.requester(core.Fair))
		late := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		second := b.call(b.e, b.requester(core.Fair))
		<-late.Caught()
		third := b.call(b.e, b.requester(core.Fair))
		time.Sleep(time.Millisecond)
		b.release(held)
		h := b.wantGranted("the first", first)
		b.release(h)
		b.wantWaiting("the one behind it", third)
		late.Deliver()
		if b.wantGranted("the second", second).lease == h.lease {
			b.Error("the lock was passed to one without an answer")
		}
		b.release(second.grant)
		b.release(b.wantGranted("the third", third))
		b.wantFree()
		b.checkGone(other)
	})
}

// A reader need not wait for the rest of a grant batch.
func TestAReaderEndsAGrantBatch(t *testing.T) {
	inLine(t, core.Write, 3, func(b *lineUp) {
		h := b.begin()
		reader := b.call(b.other, b.requester(core.Read))
		b.release(h)
		read := b.wantGranted("a reader", reader)
		b.wantWaiting("the second", b.calls[1])
		b.release(read)
		b.follow(b.wantGranted("the second", b.calls[1]), b.calls[2])
	})
}

func TestACallWithAPlaceInFrontEndsAGrantBatch(t *testing.T) {
	inLine(t, core.Fair, 0, func(b *lineUp) {
		placed := func(wait time.Duration) *requester {
			a := b.requester(core.Fair)
			a.Place, a.KeepPlace, a.Wait = "t", time.Minute, wait
			return a
		}
		away := b.call(b.other, placed(time.Second))
		for range 3 {
			b.calls = append(b.calls, b.call(b.e, b.requester(core.Fair)))
		}
		<-away.done
		h := b.begin()
		back := b.call(b.other, placed(core.Forever))
		b.release(h)
		h = b.wantGranted("the caller that has come back", back)
		b.wantWaiting("the second", b.calls[1])
		b.follow(h, b.calls[1:]...)
		b.rdb.Del(b.Context(), b.driver.Keys.Kept("t"))
	})
}

// The message that ends a grant batch may arrive while the message of its grant waits for an answer.
func TestAGrantBatchMayEndBeforeItBegins(t *testing.T) {
	inLine(t, core.Write, 0, func(b *lineUp) {
		late := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		first := b.call(b.e, b.requester(core.Write))
		<-late.Caught()
		second := b.call(b.e, b.requester(core.Write))
		time.Sleep(time.Millisecond)
		b.release(b.held)
		reader := b.call(b.other, b.requester(core.Read))
		late.Deliver()
		b.release(b.wantGranted("the first", first))
		read := b.wantGranted("a reader", reader)
		b.wantWaiting("the second", second)
		b.release(read)
		b.release(b.wantGranted("the second", second))
	})
}

// A hold that is downgraded in the middle of a grant batch admits readers, and is not passed on.
func TestADowngradeEndsAGrantBatch(t *testing.T) {
	inLine(t, core.Write, 3, func(b *lineUp) {
		h := b.begin()
		b.release(h)
		h = b.wantGranted("the second", b.calls[1])
		if err := h.Downgrade(b.Context()); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		if queue := b.queue(); len(queue) != 1 {
			b.Errorf("the queue is %q", queue)
		}
		b.release(h)
		b.release(b.wantGranted("the third", b.calls[2]))
	})
}

func TestCloseInTheMiddleOfAGrantBatch(t *testing.T) {
	inLine(t, core.Fair, 4, func(b *lineUp) {
		h := b.begin()
		b.release(h)
		b.wantGranted("the second", b.calls[1])
		_ = b.e.Close()
		b.wantLost("the second", b.calls[1].requester, core.ErrClosed)
		for _, c := range b.calls[2:] {
			<-c.done
		}
	})
}

// Shutdown waits for the holder of the lock, and for no call behind it.
func TestShutdownInTheMiddleOfAGrantBatch(t *testing.T) {
	inLine(t, core.Fair, 3, func(b *lineUp) {
		h := b.begin()
		b.release(h)
		h = b.wantGranted("the second", b.calls[1])
		ended := make(chan error, 1)
		go func() { ended <- b.e.Shutdown(b.Context()) }()
		<-b.calls[2].done
		if synctest.Wait(); len(ended) > 0 || !errors.Is(b.calls[2].err, core.ErrClosed) {
			b.Errorf("it is shut down: %d; the third: %v", len(ended), b.calls[2].err)
		}
		b.release(h)
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}
