package rw

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var lostReplies = []env.Scenario{
	env.Case("a lost reply to a reader's acquire counts once", lostReadAcquire, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a lost reply to a reader's release is no ErrNotHeld", lostReadRelease, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a lost reply to a reader's renewal keeps the hold", lostReadRenewal, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a lost reply to a queueing reader makes one ticket", lostReadQueueing, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("a lost reply to a reader's cancel leaves no ticket", lostReadCancel, env.TwoSided|env.OnServer|env.Alone),
	env.Case("a lost reply to a downgrade changes nothing", lostDowngrade, env.TwoSided|env.OnServer|env.Shares),
	env.Case("a lost reply to the release that lets readers in wakes them once", lostAdmission, env.TwoSided|env.OnServer|env.Shares),
}

// warmAll makes the server know the scripts of both sides: else what gets lost may be that it does not.
func warmAll(e *env.Env, c *env.Client) *env.Client {
	e.T.Helper()
	key := e.Key("warm")
	held := write(e, c, key)
	w := e.Wait(c.Reader(), key)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	marked(e, key)
	downgrade(e, c, held)
	release(e, held)
	return c
}

func lostReadAcquire(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	beside := read(e, other, key)
	fault := c.Wire.LoseReply(key)
	held := read(e, c, key)
	e.Caught(fault)
	if n := len(shares(e, key)); n != 2 {
		e.T.Errorf("two readers have %d holds", n)
	}
	release(e, beside)
	e.Busy(other.RW, key)
	release(e, held)
	e.Free(other.RW, key)
}

func lostReadRelease(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	beside := read(e, other, key)
	for range 5 {
		held := read(e, c, key)
		fault := c.Wire.LoseReply(key)
		release(e, held)
		e.Caught(fault)
		e.Busy(c.RW, key)
	}
	w := e.Wait(c.RW, key)
	fault := other.Wire.LoseReply(key)
	release(e, beside) // the last one: it lets the writer in
	e.Caught(fault)
	e.Unlock(w.Gets(e.Soon))
}

func lostReadRenewal(e *env.Env) {
	lease := e.Ample(time.Second) // a renewal that has no answer after a sixth of it is sent again
	c, other, key := e.Client(), e.Client(), e.Key("item")
	renewals := make(chan error, 100)
	held := read(e, c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewals <- err },
	}))
	beside := read(e, c, key, lockmw.WithLease(lease))
	for range 3 {
		if err := env.Renewal(e, renewals); err != nil {
			e.T.Errorf("a renewal: %v", err)
		}
		e.Caught(c.Wire.LoseReply(key))
	}
	alive(e, held, beside)
	e.Busy(other.RW, key)
	release(e, held, beside)
	e.Free(other.RW, key)
}

func lostReadQueueing(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	writer := write(e, other, key)
	fault := c.Wire.LoseReply(key)
	r := e.Wait(c.Reader(), key)
	e.Caught(fault)
	readersQueued(e, key, 1)
	release(e, writer)
	_, held := r.Gets(e.Soon)
	if n := len(shares(e, key)); n != 1 {
		e.T.Errorf("one reader has %d holds", n)
	}
	release(e, held)
	e.Free(other.RW, key)
}

// readersQueued waits until n readers are queued.
func readersQueued(e *env.Env, key string, n int64) {
	e.T.Helper()
	e.Eventually(env.Patience, func() string {
		if e.Server.Admin.ZCard(e.Ctx, e.Server.RedisKey(key)+":readqueue").Val() == n {
			return ""
		}
		return "not all readers who wait are queued"
	})
}

func lostReadCancel(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	writer := write(e, other, key)
	r := e.Wait(c.Reader(), key)
	readersQueued(e, key, 1)
	fault := c.Wire.LoseReply(key)
	r.Cancel()
	r.Fails(e.Soon, context.Canceled)
	e.Caught(fault)
	nobodyQueued(e, key)
	release(e, writer)
	e.Free(other.RW, key)
}

func lostDowngrade(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	held := write(e, c, key)
	readers := []*env.Waiter{e.Wait(other.Reader(), key), e.Wait(e.Client().Reader(), key)}
	w := e.Wait(other.RW, key)
	fault := c.Wire.LoseReply(key)
	holds := admitted(e, len(readers), func() { downgrade(e, c, held) }, readers)
	e.Caught(fault)
	w.IsWaiting()
	release(e, holds...)
	w.IsWaiting()
	release(e, held)
	e.Unlock(w.Gets(e.Soon))
}

func lostAdmission(e *env.Env) {
	c, other, key := warmAll(e, e.Client()), e.Client(), e.Key("item")
	writer := write(e, c, key)
	readers := []*env.Waiter{e.Wait(other.Reader(), key), e.Wait(e.Client().Reader(), key)}
	w := e.Wait(other.RW, key)
	fault := c.Wire.LoseReply(key)
	holds := admitted(e, len(readers), func() { release(e, writer) }, readers)
	e.Caught(fault)
	w.IsWaiting()
	release(e, holds...)
	e.Unlock(w.Gets(e.Soon))
}
