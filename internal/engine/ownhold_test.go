package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// kinds are requesters for all kinds of holds.
var kinds = map[string]func(b *bubble) *requester{
	"plain":  func(b *bubble) *requester { return b.requester(core.Exclusive) },
	"fair":   func(b *bubble) *requester { return b.requester(core.Fair) },
	"write":  func(b *bubble) *requester { return b.requester(core.Write) },
	"read":   func(b *bubble) *requester { return b.requester(core.Read) },
	"permit": func(b *bubble) *requester { return b.permit(1) },
}

// eachKind runs a test in a bubble for each kind of hold.
func eachKind(t *testing.T, test func(b *bubble, want func() *requester)) {
	for name, want := range kinds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) { test(b, func() *requester { return want(b) }) })
		})
	}
}

// rival wants the lock for itself, or a permit if a does.
func (b *bubble) rival(a *requester) *requester {
	if a.Mode == core.Permit {
		return b.permit(1)
	}
	return b.requester(core.Write)
}

// goesBack has the server lose what was written since the end of its first argument, in silence. It was held then.
func (b *bubble) goesBack(want func() *requester, since func()) {
	b.Helper()
	h := want().acquire(b.T, b.e)
	forget := b.loses()
	b.release(h)
	since()
	forget()
}

func TestAReleaseOfABusyKeyThatAServerHasLostIsRepeated(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		h := want().acquire(b.T, b.e)
		forget := b.loses()
		b.release(h)
		for range 100 {
			b.release(want().acquire(b.T, b.e))
		}
		b.goesAway(forget)
		b.wantFree()
	})
}

// Each recovery repeats what was released in the last 15 s: the server that answered the one before may not be the last.
func TestAReleaseIsRepeatedAtEachRecovery(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		forget := b.loses()
		b.release(h)
		b.goesAway(func() {})
		b.goesAway(forget)
		b.wantFree()
	})
}

// The recovery took it to be in use.
func TestAReleaseThatIsConfirmedAfterARecoveryIsRepeated(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		name := releaseOf(want())
		b.warmWith(acquireOf(want()), name)
		h := want().acquire(b.T, b.e)
		forget := b.loses()
		held := b.wire.HoldReply(b.e.scripts.All()[name].SHA)
		released := make(chan error, 1)
		go func() {
			_, err := h.Release(time.Second)
			released <- err
		}()
		<-held.Caught()
		forget()
		time.Sleep(time.Millisecond)
		b.e.recovery.plan()
		time.Sleep(time.Millisecond)
		held.Deliver()
		if err := <-released; err != nil {
			b.Fatal(err)
		}
		time.Sleep(recoveryPause)
		b.wantFree()
	})
}

// A call that gave up may have been granted the lock before its cancel came.
func TestACancelThatAServerHasLostIsRepeated(t *testing.T) {
	for name, want := range kinds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warmWith(acquireOf(want(b)))
				held := b.wire.HoldReply(b.e.scripts.All()[acquireOf(want(b))].SHA)
				c := b.call(b.e, want(b))
				<-held.Caught()
				forget := b.loses()
				c.stop()
				<-c.done
				held.Deliver()
				synctest.Wait()
				time.Sleep(time.Second)
				b.goesAway(forget)
				b.wantFree()
			})
		})
	}
}

// No call waits for the lease of a hold to expire because its release was lost.
func TestAReleaseThatGotLostIsMadeUpFor(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		name := releaseOf(want())
		b.warmWith(acquireOf(want()), name)
		h := want().acquire(b.T, b.e)
		b.wire.Withhold(b.e.scripts.All()[name].SHA)
		if _, err := h.Release(time.Second); !errors.Is(err, core.ErrUnavailable) {
			b.Errorf("Release: %v", err)
		}
		time.Sleep(h.Req.Lease / 3) // until the client gives up
		b.wantFree()
	})
}

func releaseOf(a *requester) string {
	if a.Mode == core.Permit {
		return "permit_release"
	}
	return "release"
}

func acquireOf(a *requester) string {
	if a.Mode == core.Permit {
		return "permit_acquire"
	}
	return "acquire"
}

// Ids in use stay, even if they are smaller than the id of the last release.
func TestARecoveryEndsNothingThatIsInUse(t *testing.T) {
	for name, want := range map[string]func(b *bubble) *requester{
		"read":   func(b *bubble) *requester { a := b.requester(core.Read); return a },
		"permit": func(b *bubble) *requester { return b.permit(2) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				first := want(b).acquire(b.T, b.e)
				second := want(b)
				second.Lease *= 2 // so that readers do not share
				b.release(second.acquire(b.T, b.e))
				b.goesAway(func() {})
				if err := first.Ended(); err != nil {
					b.Fatal(err)
				}
				b.release(first)
				b.wantFree()
			})
		})
	}
}

// Tickets that wait stay, and those that have left do not come back.
func TestARecoveryEndsNoTicketThatWaits(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		h := b.requester(core.Fair).acquire(b.T, b.engine())
		waiter, quitter := b.call(b.e, b.requester(core.Fair)), b.call(b.e, b.requester(core.Fair))
		queue := b.rdb.ZRangeWithScores(b.Context(), b.driver.Keys.Queue(), 0, -1).Val()
		quitter.stop()
		<-quitter.done
		synctest.Wait()
		b.goesAway(func() { b.rdb.ZAdd(b.Context(), b.driver.Keys.Queue(), queue...) })
		synctest.Wait()
		if n := b.rdb.ZCard(b.Context(), b.driver.Keys.Queue()).Val(); n != 1 {
			b.Errorf("%d tickets, want that of the call that waits", n)
		}
		b.release(h)
		b.release(b.wantGranted("the call that waits", waiter))
		b.wantFree()
	})
}

// The process has noticed nothing. The answer to its next call names a hold that has ended.
func TestAnEndedHoldOfItsOwnDelaysNoCall(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		for _, idle := range []time.Duration{0, time.Minute} {
			b.goesBack(want, func() { time.Sleep(idle) })
			b.keep()
			c := b.call(b.e, b.rival(want()))
			time.Sleep(10 * time.Millisecond)
			b.release(b.wantGranted("the next call", c))
			b.wantFree()
		}
	})
}

func TestAnEndedHoldOfItsOwnRefusesNoTry(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		b.goesBack(want, func() {})
		b.keep()
		try := b.rival(want())
		try.Wait = 0
		c := b.call(b.e, try)
		time.Sleep(10 * time.Millisecond)
		b.release(b.wantGranted("a try", c))
		b.wantFree()
	})
}

// keep makes what the server holds stay for long.
func (b *bubble) keep() {
	b.Helper()
	b.rdb.PExpire(b.Context(), b.driver.Keys.Holder(), time.Hour)
}

// With other calls in flight, the answer may just be older than a grant: the next one decides.
func TestAnEndedHoldOfItsOwnDelaysCallsTogetherForOnePoll(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.goesBack(kindOf(b, core.Fair), func() {})
		b.keep()
		first, second := b.call(b.e, b.requester(core.Fair)), b.call(b.e, b.requester(core.Fair))
		time.Sleep(2 * script.PollInterval)
		b.release(b.wantGranted("the first", first))
		b.release(b.wantGranted("the second", second))
		b.wantFree()
	})
}

func kindOf(b *bubble, mode core.Mode) func() *requester {
	return func() *requester { return b.requester(mode) }
}

// The holder is this process, and holds.
func TestAHoldInUseIsNotTakenForAnEndedOne(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		h := want().acquire(b.T, b.e)
		var waiting []*calling
		for range 3 {
			waiting = append(waiting, b.call(b.e, b.rival(want())))
		}
		b.sent()
		time.Sleep(5 * script.PollInterval)
		sent := b.sent()
		if n := sent["disown"] + sent["permit_disown"]; n > 0 {
			b.Errorf("%d runs of disown", n)
		}
		if err := h.Ended(); err != nil {
			b.Error(err)
		}
		b.release(h)
		for _, c := range waiting {
			<-c.done
			b.release(c.grant)
		}
		b.wantFree()
	})
}

func TestAMinimumHoldOfItsOwnIsNotTakenForAnEndedHold(t *testing.T) {
	inBubble(t, func(b *bubble) {
		a := b.requester(core.Exclusive)
		a.MinHold = time.Minute
		b.release(a.acquire(b.T, b.e))
		try := b.requester(core.Exclusive)
		try.Wait = 0
		if _, err := b.e.Acquire(b.Context(), &try.Request); !errors.Is(err, core.ErrBusy) {
			b.Errorf("%v, want ErrBusy", err)
		}
		if n := b.sent()["disown"]; n > 0 {
			b.Errorf("%d runs of disown", n)
		}
		time.Sleep(time.Minute)
	})
}
