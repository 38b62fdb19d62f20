package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
)

// goesAway makes the server unreachable while it calls meanwhile. The engine notices the beginning and the end by a call for
// another key.
func (b *bubble) goesAway(meanwhile func()) {
	b.Helper()
	try := func() error {
		a := b.requester(core.Exclusive)
		a.Key, a.Wait = "another", 0
		g, err := b.e.Acquire(b.Context(), &a.Request)
		if err == nil {
			b.release(g.(*hold))
		}
		return err
	}
	b.wire.Cut()
	if err := try(); !errors.Is(err, core.ErrUnavailable) {
		b.Errorf("a server that is away: %v", err)
	}
	meanwhile()
	b.wire.Restore()
	if err := try(); err != nil {
		b.Error(err)
	}
	time.Sleep(time.Second) // go-redis may meet broken connections first
}

// loses returns a function that takes the key on the server back to its present state.
func (b *bubble) loses() (restore func()) {
	b.Helper()
	holder := b.driver.Keys.Holder()
	fields := b.rdb.HGetAll(b.Context(), holder).Val()
	ttl := b.rdb.PTTL(b.Context(), holder).Val()
	return func() {
		b.rdb.Del(b.Context(), holder)
		if len(fields) > 0 {
			b.rdb.HSet(b.Context(), holder, fields)
			b.rdb.PExpire(b.Context(), holder, ttl)
		}
	}
}

func TestAHoldThatAServerHasLostIsLostImmediately(t *testing.T) {
	inBubble(t, func(b *bubble) {
		forget := b.loses()
		a := b.requester(core.Write)
		h := a.acquire(b.T, b.e)
		time.Sleep(h.Req.Lease / 3) // it was renewed
		b.goesAway(forget)
		select {
		case err := <-a.lost:
			if !errors.Is(err, core.ErrLost) {
				b.Error(err)
			}
		default:
			b.Error("the holder does not know")
			b.release(h)
		}
	})
}

func TestAHoldThatAServerStillHasStays(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Write).acquire(b.T, b.e)
		b.goesAway(func() {})
		b.release(h)
	})
}

// So is one that was part of a hand-over.
func TestAHandOverThatAServerHasLostIsRepeated(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		other := b.requester(core.Exclusive)
		other.Lease = h.Req.Lease / 2 // so that the lease is not passed on
		next := b.call(b.e, other)
		forget := b.loses()
		b.release(h)
		b.release(b.wantGranted("the next", next))
		b.goesAway(forget)
		b.wantFree()
	})
}

// A server that is repeatedly unreachable, or one of several, does not cause constant renewals.
func TestRecoveriesAreAtLeastASecondApart(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Write).acquire(b.T, b.e)
		time.Sleep(time.Second)
		b.sent()
		start := time.Now()
		for range 20 {
			b.e.recovery.note(core.ErrNoAnswer)
			b.e.recovery.note(nil)
			time.Sleep(recoveryPause / 10)
		}
		synctest.Wait()
		if n := b.sent()["renew"]; n == 0 || n > 4 {
			b.Errorf("%d renewals in %v", n, time.Since(start))
		}
		b.release(h)
	})
}

// Nodes that have no contact may name different masters for some time.
func TestNodesDeposedRepeatedlyRenewLeasesOnceInASecond(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Write).acquire(b.T, b.e)
		b.sent()
		for range 20 {
			b.e.recovery.deposed()
			time.Sleep(recoveryPause / 10)
		}
		synctest.Wait()
		if n := b.sent()["renew"]; n < 2 || n > 4 {
			b.Errorf("%d renewals in %v", n, 2*recoveryPause)
		}
		time.Sleep(2 * recoveryPause)
		b.sent()
		b.e.recovery.deposed()
		time.Sleep(time.Millisecond)
		if b.sent()["renew"] == 0 {
			b.Error("it is not renewed immediately after a while")
		}
		b.release(h)
	})
}

// The one before may have been too early: the other node had not taken its place yet.
func TestANodeDeposedAfterARecoveryRenewsLeasesImmediately(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Write).acquire(b.T, b.e)
		b.e.recovery.plan()
		time.Sleep(recoveryPause / 10)
		b.sent()
		b.e.recovery.deposed()
		time.Sleep(time.Millisecond)
		if b.sent()["renew"] == 0 {
			b.Error("it was not renewed")
		}
		b.release(h)
	})
}

func TestANewSubscriptionIsARecovery(t *testing.T) {
	inBubble(t, func(bubble *bubble) {
		b := deaf{bubble}
		b.warm()
		b.byMessage()
		forget := b.loses()
		a := b.requester(core.Write)
		h := a.acquire(b.T, b.e)
		forget()
		b.e.inboxes.Resubscribe(b.inbox())
		time.Sleep(2 * inbox.MinRetryPause)
		synctest.Wait()
		select {
		case err := <-a.lost:
			if !errors.Is(err, core.ErrLost) {
				b.Error(err)
			}
		default:
			b.Error("the holder does not know")
			b.release(h)
		}
	})
}
