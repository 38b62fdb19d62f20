package locktest

import (
	"context"
	"time"

	"github.com/lockmw/go/lockmw"
)

var readWriteLostReplies = []scenario{
	{"a lost reply to a reader's acquire counts once", lostReadAcquire, twoSided | server | shares | sample},
	{"a lost reply to a reader's release is no ErrNotHeld", lostReadRelease, twoSided | server | shares | sample},
	{"a lost reply to a reader's renewal keeps the hold", lostReadRenewal, twoSided | server | shares},
	{"a lost reply to a queueing reader makes one ticket", lostReadQueueing, twoSided | server | shares | sample},
	{"a lost reply to a reader's cancel leaves no ticket", lostReadCancel, twoSided | server | alone},
	{"a lost reply to a downgrade changes nothing", lostDowngrade, twoSided | server | shares},
	{"a lost reply to the release that lets readers in wakes them once", lostAdmission, twoSided | server | shares},
}

// warmAll makes the server know the scripts of both sides: else what gets lost may be that it does not.
func (e *env) warmAll(c *client) *client {
	e.t.Helper()
	key := e.key("warm")
	held := e.write(c, key)
	w := e.wait(c.reader(), key)
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.marked(key)
	e.downgrade(c, held)
	e.release(held)
	return c
}

func lostReadAcquire(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	beside := e.read(other, key)
	fault := c.wire.LoseReply(key)
	held := e.read(c, key)
	e.caught(fault)
	if n := len(e.shares(key)); n != 2 {
		e.t.Errorf("two readers have %d holds", n)
	}
	e.release(beside)
	e.busy(other.rw, key)
	e.release(held)
	e.free(other.rw, key)
}

func lostReadRelease(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	beside := e.read(other, key)
	for range 5 {
		held := e.read(c, key)
		fault := c.wire.LoseReply(key)
		e.release(held)
		e.caught(fault)
		e.busy(c.rw, key)
	}
	w := e.wait(c.rw, key)
	fault := other.wire.LoseReply(key)
	e.release(beside) // the last one: it lets the writer in
	e.caught(fault)
	e.unlock(w.gets(e.soon))
}

func lostReadRenewal(e *env) {
	const lease = 600 * time.Millisecond
	c, other, key := e.client(), e.client(), e.key("item")
	renewals := make(chan error, 100)
	held := e.read(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewals <- err },
	}))
	beside := e.read(c, key, lockmw.WithLease(lease))
	for range 3 {
		if err := next(e, renewals); err != nil {
			e.t.Errorf("a renewal: %v", err)
		}
		e.caught(c.wire.LoseReply(key))
	}
	e.alive(held, beside)
	e.busy(other.rw, key)
	e.release(held, beside)
	e.free(other.rw, key)
}

func lostReadQueueing(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	writer := e.write(other, key)
	fault := c.wire.LoseReply(key)
	r := e.wait(c.reader(), key)
	e.caught(fault)
	e.readersQueued(key, 1)
	e.release(writer)
	_, held := r.gets(e.soon)
	if n := len(e.shares(key)); n != 1 {
		e.t.Errorf("one reader has %d holds", n)
	}
	e.release(held)
	e.free(other.rw, key)
}

// readersQueued waits until n readers are queued.
func (e *env) readersQueued(key string, n int64) {
	e.t.Helper()
	e.eventually(patience, func() string {
		if e.admin.ZCard(e.ctx, e.redisKey(key)+":readqueue").Val() == n {
			return ""
		}
		return "not all readers who wait are queued"
	})
}

func lostReadCancel(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	writer := e.write(other, key)
	r := e.wait(c.reader(), key)
	e.readersQueued(key, 1)
	fault := c.wire.LoseReply(key)
	r.cancel()
	r.fails(e.soon, context.Canceled)
	e.caught(fault)
	e.nobodyQueued(key)
	e.release(writer)
	e.free(other.rw, key)
}

func lostDowngrade(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	held := e.write(c, key)
	readers := []*waiter{e.wait(other.reader(), key), e.wait(e.client().reader(), key)}
	w := e.wait(other.rw, key)
	fault := c.wire.LoseReply(key)
	holds := e.admitted(len(readers), func() { e.downgrade(c, held) }, readers)
	e.caught(fault)
	w.isWaiting()
	e.release(holds...)
	w.isWaiting()
	e.release(held)
	e.unlock(w.gets(e.soon))
}

func lostAdmission(e *env) {
	c, other, key := e.warmAll(e.client()), e.client(), e.key("item")
	writer := e.write(c, key)
	readers := []*waiter{e.wait(other.reader(), key), e.wait(e.client().reader(), key)}
	w := e.wait(other.rw, key)
	fault := c.wire.LoseReply(key)
	holds := e.admitted(len(readers), func() { e.release(writer) }, readers)
	e.caught(fault)
	w.isWaiting()
	e.release(holds...)
	e.unlock(w.gets(e.soon))
}
