package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/test/scripttest"
)

// wantLost checks that a was notified of its loss, once.
func (b *bubble) wantLost(what string, a *requester, want error) {
	b.Helper()
	synctest.Wait()
	if len(a.lost) != 1 {
		b.Errorf("%s was notified %d times of its loss", what, len(a.lost))
		return
	}
	if err := <-a.lost; !errors.Is(err, want) {
		b.Errorf("%s is lost: %v, want %v", what, err, want)
	}
}

// sharers are n readers with one lease.
func (b *bubble) sharers(n int, edit func(*core.Request)) (requesters []*requester, grants []*hold) {
	b.Helper()
	for range n {
		a := b.requester(core.Read)
		if edit != nil {
			edit(&a.Request)
		}
		h := a.acquire(b.T, b.e)
		requesters, grants = append(requesters, a), append(grants, h)
		if h.lease != grants[0].lease {
			b.Fatal("they have different leases")
		}
	}
	return requesters, grants
}

func TestALostLeaseIsLostForAllReadersThatShareIt(t *testing.T) {
	for name, lose := range map[string]func(b *bubble, one *hold){
		"by the server": func(b *bubble, _ *hold) {
			b.rdb.FlushAll(b.Context())
			time.Sleep(scripttest.Lease / 3) // the next renewal
		},
		"for a join": func(b *bubble, _ *hold) {
			b.rdb.FlushAll(b.Context())
			time.Sleep(shareFor)
			h := b.read() // renews, and begins anew
			b.release(h)
		},
		"by force": func(b *bubble, _ *hold) {
			inspector, err := inspect.New(b.rdb, inspect.Config{Prefix: "lockmw"})
			if err != nil {
				b.Fatal(err)
			}
			status, err := inspector.Get(b.Context(), bubbleKey)
			if err != nil || len(status.Holders) != 1 {
				b.Fatalf("%+v, %v", status, err)
			}
			b.driver.Force(status.Holders[0].Token, status.Holders[0].Owner)
			time.Sleep(time.Millisecond) // a renewal says so
		},
		"for an extension": func(b *bubble, one *hold) {
			b.rdb.FlushAll(b.Context())
			if err := one.Extend(b.Context(), time.Minute); !errors.Is(err, core.ErrLost) {
				b.Errorf("Extend: %v", err)
			}
		},
		"for want of a renewal": func(b *bubble, _ *hold) {
			b.wire.Silence()
			time.Sleep(scripttest.Lease)
			b.wire.Restore()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				requesters, grants := b.sharers(3, nil)
				lose(b, grants[1])
				for i, a := range requesters {
					b.wantLost("one that shares", a, core.ErrLost)
					if _, err := grants[i].Release(time.Second); !errors.Is(err, core.ErrLost) {
						b.Errorf("Release: %v", err)
					}
				}
				time.Sleep(2 * time.Second) // what failed is tried again
				b.release(b.read())
				b.wantFree()
			})
		})
	}
}

func TestAHoldThatEndsAtItsDeadlineTakesNothingFromTheOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		requesters, grants := b.sharers(3, func(r *core.Request) { r.MaxHold = time.Minute })
		b.release(grants[0], grants[2]) // the earliest and the latest
		time.Sleep(59 * time.Second)
		if len(b.readers()) != 1 || grants[1].Expired() {
			b.Error("the remaining hold has ended")
		}
		time.Sleep(time.Second)
		b.wantLost("the one that is left", requesters[1], core.ErrLost)
		if len(requesters[0].lost)+len(requesters[2].lost) > 0 {
			b.Error("one that was released is notified of a loss")
		}
		b.wantFree()
	})
}

func TestALeaseIsRenewedAsLongAsAReaderSharesIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		requesters, grants := b.sharers(2, nil)
		time.Sleep(2 * scripttest.Lease)
		b.release(grants[0])
		b.sent()
		time.Sleep(2 * scripttest.Lease)
		if n := b.sent()["renew"]; n < 5 || n > 8 {
			b.Errorf("%d renewals in two leases", n)
		}
		for _, a := range requesters {
			if len(a.lost) > 0 {
				b.Errorf("lost: %v", <-a.lost)
			}
		}
		b.release(grants[1])
		b.wantFree()
	})
}

func TestExtendOfOneThatShares(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		_, grants := b.sharers(2, nil)
		left := func(h *hold) time.Duration { return clock.Until(h.Deadline()) }
		if err := grants[0].Extend(b.Context(), time.Second); !errors.Is(err, core.ErrInvalidOption) {
			b.Errorf("Extend for less: %v, want ErrInvalidOption", err)
		}
		if left(grants[0]) < scripttest.Lease/2 || left(grants[1]) < scripttest.Lease/2 {
			b.Errorf("after Extend for a second they have %v and %v", left(grants[0]), left(grants[1]))
		}
		time.Sleep(2 * time.Second) // the next renewal
		if err := grants[0].Extend(b.Context(), time.Hour); err != nil {
			b.Errorf("Extend: %v", err)
		}
		for i, h := range grants { // otherwise the server would also keep the lease of one for the other
			if l := left(h); l < scripttest.Lease*9/10 || l > scripttest.Lease {
				b.Errorf("after Extend for an hour reader %d has %v of %v", i, l, scripttest.Lease)
			}
		}
		if d := b.rdb.PTTL(b.Context(), b.driver.Keys.Holder()).Val(); d > scripttest.Lease {
			b.Errorf("the server keeps the lock for %v", d)
		}
		b.release(grants[0])
		time.Sleep(2 * time.Hour) // the other one is renewed as before
		if left(grants[1]) < scripttest.Lease/2 || len(b.readers()) != 1 {
			b.Errorf("the other one has %v", left(grants[1]))
		}
		b.release(b.read())
		b.release(grants[1])
		b.wantFree()
	})
}

// The cap counts all callers of this process that wait for the key, in any mode.
func TestTheWaiterCapCountsAllThatWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.requester(core.Write).acquire(b.T, b.e)
		var waiting []*calling
		capped := func(mode core.Mode) *calling {
			a := b.requester(mode)
			a.MaxWaiters = 4
			return b.call(b.e, a)
		}
		for _, mode := range []core.Mode{core.Read, core.Read, core.Write, core.Fair} {
			c := capped(mode)
			b.wantWaiting(mode.String(), c)
			waiting = append(waiting, c)
		}
		for _, mode := range []core.Mode{core.Read, core.Write, core.Fair} {
			if c := capped(mode); !c.returned() || !errors.Is(c.err, core.ErrTooManyWaiters) {
				b.Errorf("a fifth, of the mode %s: returned %t, %v", mode, c.returned(), c.err)
			}
		}
		waiting[0].stop()
		<-waiting[0].done
		waiting[0] = capped(core.Write)
		b.wantWaiting("one in the place of one that has gone", waiting[0])
		b.release(first)
		b.release(b.wantGranted("the reader", waiting[1]))
		for _, i := range []int{2, 3, 0} {
			b.release(b.wantGranted("a writer", waiting[i]))
		}
		b.wantFree()
	})
}

// A join fails immediately where waiting does not help, and in the end where it might.
func TestAJoinGetsTheErrorOfTheServer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		a := b.requester(core.Read)
		first := a.acquire(b.T, b.e)
		time.Sleep(shareFor)
		b.rdb.Set(b.Context(), b.driver.Keys.Holder(), "a stranger's", 0)
		join := b.requester(core.Read)
		join.Wait = 2 * time.Second
		ctx, cancel := context.WithTimeout(b.Context(), soon)
		defer cancel()
		if _, err := b.e.Acquire(ctx, &join.Request); !errors.Is(err, core.ErrWrongType) {
			b.Errorf("a join of a lock whose key is a stranger's: %v", err)
		}
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		time.Sleep(scripttest.Lease)
		b.wantLost("the first", a, core.ErrLost)
		_, _ = first.Release(time.Second)
		b.wantFree()
	})
}

// A call that is cancelled soon is no sign of trouble, however long the lease has been there. One whose time ends without an answer
// does not know whether the lock is held.
func TestAJoinThatEndsWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		time.Sleep(time.Second)
		held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		join := b.requester(core.Read)
		c := b.call(b.e, join)
		<-held.Caught()
		time.Sleep(localq.SlowAnswer / 2)
		c.stop()
		<-c.done
		if !errors.Is(c.err, core.ErrBusy) || errors.Is(c.err, core.ErrUnavailable) {
			b.Errorf("a join that was cancelled: %v", c.err)
		}
		for _, join.Wait = range []time.Duration{localq.SlowAnswer / 2, localq.SlowAnswer, 2 * localq.SlowAnswer} {
			c = b.call(b.e, join)
			<-c.done
			if !errors.Is(c.err, core.ErrUnavailable) {
				b.Errorf("a join with %v: %v", join.Wait, c.err)
			}
		}
		held.Deliver()
		b.release(first)
		b.wantFree()
	})
}
