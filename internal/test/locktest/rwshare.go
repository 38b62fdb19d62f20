package locktest

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Readers of one process share a hold in Redis for as long as no writer waits.
var sharing = []scenario{
	{"readers of one process share a hold", readersShare, twoSided | server | shares | sample},
	{"readers with different leases do not share a hold", leasesNotShared, twoSided | server | shares | sample},
	{"joining a hold sends nothing", joinsSendNothing, twoSided | server | bubble},
	{"readers of one process that come and go send few commands", readersSendLittle, twoSided | server | shares},
	{"readers of one process that ask at once share a hold", readersAskTogether, twoSided | server | shares},
	{"nobody joins a hold while a writer waits", noJoinBehindWriter, twoSided | server | shares},
	{"readers share a hold again after the writer", shareAfterWriter, twoSided | server | shares},
	{"readers share a hold again after a writer that has given up", shareAfterCancel, twoSided | server | shares},
	{"readers that join are kept by no server beyond their context", silentJoin, twoSided | server | shares},
	{"a reader that is cancelled while it joins leaves no hold behind", cancelledJoin, twoSided | server | shares},
	{"a writer that comes while nobody hears of it is delayed by a licence at most", writerUnheard, twoSided | realTime | alone | sample},
	{"the last reader's release frees the lock at once", lastReaderReleases, twoSided | server | shares},
	{"a reader who leaves takes nothing from the others", readersLeaveSharedHold, twoSided | server | shares},
	{"a lost hold is lost for all who share it", sharedHoldLost, twoSided | server | shares},
}

// licence is for how long readers may join without asking whether a writer waits.
const licence = 100 * time.Millisecond

// scripts are the commands of c about key since it was recorded.
func (c *client) scripts(key string) (sent []redistest.Command) {
	for _, command := range c.wire.Sent() {
		if command.IsScript() && command.Concerns(key) {
			sent = append(sent, command)
		}
	}
	return sent
}

// readsOf takes key n times for reading.
func (e *env) readsOf(c *client, key string, n int, opts ...lockmw.Option) []*Held {
	e.t.Helper()
	holds := make([]*Held, n)
	for i := range holds {
		holds[i] = e.read(c, key, opts...)
	}
	return holds
}

func readersShare(e *env) {
	const readers = 20
	a, b, key := e.client(), e.client(), e.key("item")
	holds := append(e.readsOf(a, key, readers), e.readsOf(b, key, readers)...)
	if n := len(e.shares(key)); n > 4 { // while a licence is renewed one may get a hold of its own
		e.t.Errorf("%d readers of two processes have %d holds", len(holds), n)
	}
	status := e.status(key)
	if status.Mode != readMode || len(status.Holders) != len(e.shares(key)) {
		e.t.Errorf("the inspector sees %d holders, who %s", len(status.Holders), status.Mode)
	}
	e.release(holds...)
	e.free(b.rw, key)
}

// status is what an Inspector says of a key.
func (e *env) status(key string) lockmw.Status {
	e.t.Helper()
	inspector, err := lockmw.NewInspector(e.admin, lockmw.WithPrefix(e.prefix))
	if err != nil {
		e.t.Fatal(err)
	}
	status, err := inspector.Get(e.ctx, key)
	if err != nil {
		e.t.Error(err)
	}
	return status
}

func leasesNotShared(e *env) {
	c, key := e.client(), e.key("item")
	var holds []*Held
	for _, opt := range []lockmw.Option{
		lockmw.WithLease(10 * time.Second), lockmw.WithLease(20 * time.Second), lockmw.WithFixedLease(10 * time.Second),
		lockmw.WithMaxHold(time.Minute),
	} {
		holds = append(holds, e.readsOf(c, key, 3, opt)...)
	}
	if n := len(e.shares(key)); n < 4 {
		e.t.Errorf("readers with four different leases have %d holds", n)
	}
	e.release(holds...)
	e.free(c.rw, key)
}

func joinsSendNothing(e *env) {
	c, key := e.warm(e.client()), e.key("item")
	held := e.read(c, key)
	e.release(e.read(c, key)) // the first one to join has the process listen
	synctest.Wait()
	c.wire.Record()
	e.release(e.readsOf(c, key, 100)...)
	if sent := c.scripts(key); len(sent) > 0 {
		e.t.Errorf("100 reads beside another one sent %d commands, the first one %q", len(sent), sent[0])
	}
	for range 50 {
		e.pass(licence / 5)
		e.release(e.readsOf(c, key, 5)...)
	}
	if n := len(c.scripts(key)); n > 22 { // every licence is asked for, and some holds may be released
		e.t.Errorf("the reads of ten licences sent %d commands", n)
	}
	e.release(held)
	e.free(c.rw, key)
}

func readersSendLittle(e *env) {
	const readers, rounds = 16, 200
	c, key := e.warm(e.client()), e.key("item")
	c.wire.Record()
	start := time.Now()
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for range rounds {
				_, held, err := e.rec.Lock(e.ctx, c.reader(), key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				e.pass(time.Millisecond)
				e.release(held)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	most := 20 + 4*int(took/(100*time.Millisecond)) // each licence, and when they happen to be all out
	if n := len(c.scripts(key)); n > most {
		e.t.Errorf("%d reads in %v sent %d commands, more than %d", readers*rounds, took, n, most)
	}
}

func readersAskTogether(e *env) {
	const readers = 32
	c, key := e.warm(e.client()), e.key("item")
	calls := make([]*waiter, readers)
	c.wire.Record()
	for i := range calls {
		calls[i] = e.call(e.ctx, c.reader(), key)
	}
	holds := e.together(calls)
	if n := len(c.scripts(key)); e.cfg.Bubble && n > 4 {
		e.t.Errorf("%d reads at once sent %d commands", readers, n)
	}
	e.release(holds...)
	e.free(c.rw, key)
}

func noJoinBehindWriter(e *env) {
	for _, writersClient := range []func(a, b *client) *client{
		func(a, _ *client) *client { return a }, func(_, b *client) *client { return b },
	} {
		a, b, key := e.client(), e.client(), e.key("item")
		holds := e.readsOf(a, key, 3)
		w := e.wait(writersClient(a, b).rw, key)
		behind := e.behind(a, key)
		for range 10 {
			e.busy(a.reader(), key)
		}
		e.release(holds[1], holds[0])
		w.isWaiting()
		behind.isWaiting()
		e.release(holds[2])
		_, held := w.gets(e.soon)
		behind.isWaiting()
		e.release(held)
		e.unlock(behind.gets(e.soon))
	}
}

func shareAfterWriter(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	for range 3 {
		first := e.read(a, key)
		w := e.wait(b.rw, key)
		e.release(first)
		e.unlock(w.gets(e.soon))
		holds := e.readsOf(a, key, 20)
		if n := len(e.shares(key)); n > 3 {
			e.t.Errorf("after a writer %d readers have %d holds", len(holds), n)
		}
		e.release(holds...)
		e.free(b.rw, key)
	}
}

func shareAfterCancel(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	first := e.read(a, key)
	w := e.wait(b.rw, key)
	e.heard(a, key)
	w.cancel()
	w.fails(e.soon, context.Canceled)
	e.nobodyQueued(key)
	holds := e.readsOf(a, key, 20)
	if n := len(e.shares(key)); n > 4 {
		e.t.Errorf("after a writer that has given up %d readers have %d holds", len(holds), n)
	}
	e.release(holds...)
	e.release(first)
	e.free(b.rw, key)
}

func silentJoin(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	held := e.read(c, key)
	e.release(e.read(c, key))
	c.wire.Silence()
	e.pass(2 * licence) // until it is not known any more whether a writer waits
	e.silentCall(readerClient(c), key)
	e.silentCall(readerClient(c), key, lockmw.WithWait(0))
	c.wire.Restore()
	e.busy(other.rw, key)
	e.release(held)
	e.unlock(e.call(e.ctx, other.rw, key).gets(acceptWindow + pollInterval + e.soon))
}

func cancelledJoin(e *env) {
	c, other, key := e.client(), e.client(), e.key("item")
	first := e.read(c, key)
	e.release(e.read(c, key))
	for _, firstLeaves := range []bool{true, false} {
		e.pass(2 * licence)
		answer := c.wire.HoldReply(key)
		w := e.call(e.ctx, c.reader(), key)
		e.caught(answer)
		if firstLeaves {
			e.release(first)
		}
		w.cancel()
		w.fails(e.soon, context.Canceled)
		answer.Deliver()
		if !firstLeaves {
			e.release(first)
		}
		e.free(other.rw, key)
		first = e.read(c, key, lockmw.WithWait(e.soon))
	}
	e.release(first)
}

// readerClient is c as one that tests the reading side.
func readerClient(c *client) *client {
	reader := *c
	reader.Locker, reader.reads = c.reader(), true
	return &reader
}

func writerUnheard(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	defer e.crowd(a.reader(), key, 10, 20*time.Millisecond)()
	for range 3 {
		e.gets(key, 50)
		e.admin.ClientKillByFilter(e.ctx, "TYPE", "pubsub")
		w := e.wait(b.rw, key)
		e.unlock(w.gets(licence + e.soon))
	}
}

func lastReaderReleases(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	for range 10 {
		e.release(e.readsOf(a, key, 5)...)
		_, held, err := e.rec.Lock(e.ctx, b.rw, key, lockmw.WithWait(0))
		if err != nil {
			e.t.Fatalf("a try after the last reader's Unlock: %v", err)
		}
		e.release(held)
	}
}

func readersLeaveSharedHold(e *env) {
	const lease = 400 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	holds := e.readsOf(a, key, 6, lockmw.WithLease(lease))
	for _, i := range []int{3, 0, 5, 1} {
		e.release(holds[i])
		e.is("Unlock once more", holds[i].Hold.Unlock(), lockmw.ErrNotHeld)
		e.busy(b.rw, key)
	}
	e.pass(2 * lease)
	e.alive(holds[2], holds[4])
	w := e.wait(b.rw, key)
	e.release(holds[4])
	w.isWaiting()
	e.release(holds[2])
	e.unlock(w.gets(e.soon))
}

func sharedHoldLost(e *env) {
	const lease = 400 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	holds := e.readsOf(a, key, 4, lockmw.WithLease(lease))
	w := e.wait(b.rw, key)
	a.wire.Silence()
	for _, h := range holds {
		if e.ends(h.ctx) {
			e.is("the cause of the context's end", context.Cause(h.ctx), lockmw.ErrLost)
		}
	}
	_, held := w.gets(lease + pollInterval + e.soon)
	a.wire.Restore()
	for _, h := range holds {
		e.is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
	}
	e.busy(b.reader(), key)
	e.release(held)
}
