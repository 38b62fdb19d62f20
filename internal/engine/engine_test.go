package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
)

const soon = time.Minute // for what must happen immediately, on a busy machine

func newEngine(t *testing.T, rdb redis.UniversalClient) *Engine {
	t.Helper()
	e, err := New(rdb, DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// A requester is a caller that wants a lock.
type requester struct {
	core.Request
	contended chan core.Wait
	lost      chan error
	onLost    func()
}

func newRequester(key string) *requester {
	a := &requester{contended: make(chan core.Wait, 10), lost: make(chan error, 10)}
	a.Request = core.Request{
		Key: key, Mode: core.Exclusive, Owner: "owner", Wait: core.Forever, Lease: 30 * time.Second, Events: a,
	}
	return a
}

func (a *requester) Contended(w core.Wait)   { a.contended <- w }
func (a *requester) Waiting(core.Wait)       {}
func (a *requester) SelfWait(core.LocalHold) {}
func (a *requester) IsForgotten() bool       { return false }
func (a *requester) Renewed(error)           {}

func (a *requester) Forgotten(core.LocalHold, time.Time) {}
func (a *requester) ShuttingDown()                       {}

func (a *requester) Lost(cause error) {
	if a.onLost != nil {
		a.onLost()
	}
	a.lost <- cause
}

func (a *requester) acquire(t *testing.T, e *Engine) *hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	g, err := e.Acquire(ctx, &a.Request)
	if err != nil {
		t.Fatal(err)
	}
	return g.(*hold)
}

// queue has a wait for the lock, and returns when the server has its ticket.
func (a *requester) queue(t *testing.T, e *Engine) (granted <-chan *hold) {
	t.Helper()
	c := make(chan *hold, 1)
	go func() { c <- a.acquire(t, e) }()
	select {
	case <-a.contended:
	case <-time.After(soon):
		t.Error("it does not wait")
	}
	return c
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !done(); time.Sleep(time.Millisecond) { // polling
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", soon, what)
		}
	}
}

func holderOf(t *testing.T, rdb *redis.Client, h *hold) string {
	t.Helper()
	id, err := rdb.HGet(t.Context(), h.lease.c.keys.Holder(), "id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return id
}

// oldPush is a message that the lock was granted to the id of g, long ago.
func oldPush(h *hold) *script.Message {
	m, _ := script.ParseMessage(h.lease.c.e.prove("grant " + h.lease.id.String() + " 1 1 1 0 " + h.lease.c.keys.Holder()))
	return &m
}

func TestALatePushDoesNotEndTheLease(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	a, b := newEngine(t, rdb), newEngine(t, rdb)
	first, second := newRequester("item:1"), newRequester("item:1")
	held := first.acquire(t, a)
	granted := second.queue(t, b)
	requests := b.ids.requests()
	if len(requests) != 1 {
		t.Fatalf("%d requests", len(requests))
	}
	if _, err := held.Release(soon); err != nil {
		t.Fatal(err)
	}
	h := <-granted
	// The push was found to be for a request, which has become a lease before the push got the lock.
	if !requests[0].accepts(&script.Message{Grant: script.Grant{Token: h.Token(), Tokens: 1}}) {
		t.Error("the push of a lease that is held is taken for that of an unknown id")
	}
	b.onGrant(oldPush(h))
	b.sender.WaitIdle(soon)
	if id := holderOf(t, rdb, h); id != h.lease.id.String() {
		t.Errorf("held by %q after a late push", id)
	}
}

func TestAPushForAnUnknownIDIsCancelled(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	e := newEngine(t, rdb)
	h := newRequester("item:1").acquire(t, e)
	e.ids.remove(h.lease.id) // as if its caller had gone
	e.onGrant(oldPush(h))
	eventually(t, "the grant of an unknown id is still held", func() bool { return holderOf(t, rdb, h) == "" })
}

// A waiter's context may be the context of another hold, whose Err may call observers.
func TestContextsAreNotCalledWithTheShardLocked(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	a, b := newEngine(t, rdb), newEngine(t, rdb)
	held := newRequester("item:1").acquire(t, a)
	var asked atomic.Bool
	parent, cancel := context.WithCancel(t.Context())
	ctx := &watchedContext{Context: parent, asked: func() {
		for i := range b.shards {
			for begun := time.Now(); !b.shards[i].mu.TryLock(); time.Sleep(time.Millisecond) { // others have it for a moment
				if asked.Load() || time.Since(begun) > soon {
					asked.Store(true)
					return
				}
			}
			b.shards[i].mu.Unlock()
		}
	}}
	waits := newRequester("item:1")
	ended := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, &waits.Request)
		ended <- err
	}()
	<-waits.contended
	other := newRequester("item:1")
	granted := other.queue(t, b)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call: %v", err)
	}
	if _, err := held.Release(soon); err != nil {
		t.Fatal(err)
	}
	<-granted
	if asked.Load() {
		t.Error("Err of a caller's context was called under the shard's lock")
	}
}

type watchedContext struct {
	context.Context
	asked func()
}

func (c *watchedContext) Err() error {
	c.asked()
	return c.Context.Err()
}

func TestOneHalfOpenConnectionDoesNotLoseAGrant(t *testing.T) {
	inBubble(t, func(b *bubble) {
		held := b.requester(core.Exclusive).acquire(b.T, b.engine())
		waits := b.requester(core.Exclusive)
		next := b.call(b.e, waits)
		time.Sleep(script.PollInterval * 3 / 2) // a poll follows the subscription, and the next one is not due
		fault := b.wire.Withhold(b.scripts()["renew"].SHA)
		b.release(held)
		synctest.Wait()
		l := b.wantGranted("the lock is free", next).lease
		l.c.shard.mu.Lock()
		confirmed := l.confirmed
		l.c.shard.mu.Unlock()
		if confirmed {
			b.Fatal("not granted by a push")
		}
		<-fault.Caught()
		time.Sleep(script.AcceptWindow)
		if len(waits.lost) > 0 {
			b.Fatal(<-waits.lost)
		}
		if left := clock.Until(next.grant.Deadline()); left <= 2*script.AcceptWindow {
			b.Errorf("the grant was not renewed: it lasts for %v", left)
		}
		fault.Break()
		b.release(next.grant)
	})
}

// The push of a grant that a poll has found may arrive while its release is in flight.
func TestALatePushDoesNotOvertakeTheRelease(t *testing.T) {
	s := redistest.Mini(t)
	e := newEngine(t, s.NewClient(t))
	h := newRequester("item:1").acquire(t, e)
	e.sender.WaitIdle(soon)
	e.sender.Pause() // nothing more goes out
	released := make(chan error, 1)
	go func() {
		_, err := h.Release(soon)
		released <- err
	}()
	eventually(t, "the release was not sent", func() bool { return e.sender.Gathered() == 1 })
	e.onGrant(oldPush(h))
	if n := e.sender.Gathered(); n != 1 {
		t.Errorf("%d commands wait to be sent, want only the release", n)
	}
	e.sender.Resume()
	if err := <-released; err != nil {
		t.Error(err)
	}
	if e.find(h.lease.id.String()) != nil {
		t.Error("the id is remembered when its release is answered")
	}
}

func TestCloseEndsAHoldBeforeTheServerGivesItsLockAway(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	e := newEngine(t, rdb)
	a := newRequester("item:1")
	h := a.acquire(t, e)
	a.onLost = func() {
		if id := holderOf(t, rdb, h); id != h.lease.id.String() {
			t.Errorf("held by %q before the hold was notified", id)
		}
	}
	_ = e.Close()
	if err := <-a.lost; !errors.Is(err, core.ErrClosed) {
		t.Errorf("lost: %v", err)
	}
	if id := holderOf(t, rdb, h); id != "" {
		t.Errorf("held by %q after Close", id)
	}
}

func TestExtendThatLearnsOfALossEndsTheHold(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	e := newEngine(t, rdb)
	a := newRequester("item:1")
	a.Fixed = true
	h := a.acquire(t, e)
	rdb.FlushAll(t.Context())
	if err := h.Extend(t.Context(), time.Minute); !errors.Is(err, core.ErrLost) {
		t.Errorf("Extend: %v", err)
	}
	select {
	case err := <-a.lost:
		if !errors.Is(err, core.ErrLost) {
			t.Errorf("lost: %v", err)
		}
	case <-time.After(soon):
		t.Error("the hold was not notified")
	}
	if _, err := h.Release(soon); !errors.Is(err, core.ErrLost) {
		t.Errorf("Release: %v", err)
	}
}

func TestASlowObserverOfALossDoesNotStopTheWatchdog(t *testing.T) {
	inBubble(t, func(b *bubble) {
		slow, other := newRequester("item:1"), newRequester("item:2")
		slow.Fixed = true
		notified, block := make(chan struct{}), make(chan struct{})
		defer close(block)
		slow.onLost = func() {
			close(notified)
			<-block
		}
		slow.acquire(b.T, b.e)
		h := other.acquire(b.T, b.e)
		<-notified
		time.Sleep(2 * other.Lease)
		if len(other.lost) > 0 || clock.Until(h.Deadline()) < other.Lease/2 {
			b.Errorf("the other hold lasts for %v, lost: %d", clock.Until(h.Deadline()), len(other.lost))
		}
		b.release(h)
	})
}

func TestTheLoserOfARaceWithinTheProcessIsNotifiedThatItWaits(t *testing.T) {
	s := redistest.Mini(t)
	wire := s.NewWire()
	e := newEngine(t, s.NewClient(t, wire.Use))
	warm := newRequester("item:0").acquire(t, e) // a connection, and the script
	if _, err := warm.Release(soon); err != nil {
		t.Fatal(err)
	}
	fault := wire.LoseReply("item:1") // so that its answer takes a while
	first, second := newRequester("item:1"), newRequester("item:1")
	granted := make(chan *hold, 2)
	go func() { granted <- first.acquire(t, e) }()
	<-fault.Caught()
	go func() { granted <- second.acquire(t, e) }()
	h := <-granted
	select {
	case <-second.contended:
	case <-first.contended:
	case <-time.After(soon):
		t.Error("the one that waits was not notified")
	}
	if _, err := h.Release(soon); err != nil {
		t.Fatal(err)
	}
	<-granted
}
