package locktest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/lockmw"
)

var readersLeaving = []scenario{
	{"a reader that is cancelled while it waits leaves nothing", cancelledReader, twoSided | shares | sample},
	{"a reader whose wait runs out leaves nothing", readerTimesOut, twoSided | shares},
	{"some of many readers are cancelled and the others let in", someReadersCancelled, twoSided | shares},
	{"a reader that is cancelled in the instant of its grant keeps nobody out", readerCancelledAtGrant, twoSided | shares},
	{"a writer that is cancelled in the instant of its grant keeps no reader out", writerCancelledAtGrant, twoSided | shares},
	{"a reader that is cancelled in the instant of its first acquire leaves nothing", readerCancelledAtAcquire, twoSided | shares},
	{"a reader that gives up beside others that read keeps the writer waiting", readerLeavesBehindWriter, twoSided | shares | sample},
	{"Close ends readers and writers that hold and wait", closeEndsBothSides, twoSided | server | shares | sample},
	{"Close under load of both sides ends every call", closeBothUnderLoad, twoSided | server | shares},
	{"Shutdown lets readers finish", shutdownWaitsForReaders, twoSided | server | shares},
}

// nobodyQueued checks that nobody is in key's queues.
func (e *env) nobodyQueued(key string) {
	e.t.Helper()
	if e.server == nil {
		return
	}
	e.eventually(e.soon, func() string {
		for _, part := range []string{":queue", ":readqueue"} {
			if n := e.admin.ZCard(e.ctx, e.redisKey(key)+part).Val(); n > 0 {
				return part + " is not empty"
			}
		}
		return ""
	})
}

func cancelledReader(e *env) {
	clients, key := e.clients(2), e.key("item")
	writer := e.write(clients[0], key)
	for _, c := range clients {
		r := e.wait(c.reader(), key)
		r.cancel()
		r.fails(e.soon, lockmw.ErrBusy, context.Canceled)
	}
	e.nobodyQueued(key)
	e.release(writer)
	e.free(clients[1].rw, key)
	e.free(clients[0].rw, key)
}

func readerTimesOut(e *env) {
	const limit = 200 * time.Millisecond
	clients, key := e.clients(2), e.key("item")
	writer := e.write(clients[0], key)
	var readers []*waiter
	for i := range 4 {
		readers = append(readers, e.wait(clients[i%2].reader(), key, lockmw.WithWait(limit)))
	}
	for _, r := range readers {
		r.fails(limit+e.soon, lockmw.ErrBusy)
	}
	e.nobodyQueued(key)
	e.release(writer)
	e.free(clients[1].rw, key)
}

func someReadersCancelled(e *env) {
	clients, key := e.clients(3), e.key("item")
	writer := e.write(clients[0], key)
	var stay, leave []*waiter
	for i := range 12 {
		stay = append(stay, e.wait(clients[i%3].reader(), key))
		leave = append(leave, e.wait(clients[(i/2)%3].reader(), key))
	}
	next := e.wait(clients[1].rw, key)
	for _, r := range leave {
		r.cancel()
		r.fails(e.soon, context.Canceled)
	}
	holds := e.admitted(len(stay), func() { e.release(writer) }, stay)
	next.isWaiting()
	e.release(holds...)
	e.unlock(next.gets(e.soon))
	e.nobodyQueued(key)
}

// instants is how often a scenario tries to meet one.
func (e *env) instants() int {
	if e.cfg.Bubble {
		return 100
	}
	return 40
}

// meet lets a goroutine release a hold and, about then, cancels a call that waits for it.
func (e *env) meet(held *Held, w *waiter) {
	e.t.Helper()
	released := make(chan struct{})
	go func() {
		defer close(released)
		e.release(held)
	}()
	if !e.cfg.Bubble { // there the scheduler alone decides who is first
		e.pass(time.Duration(rand.IntN(1500)) * time.Microsecond) // spread over the hand-over
	}
	w.cancel()
	<-released
	if !w.returns(e.soon) {
		e.t.FailNow()
	}
	if w.err == nil {
		e.release(w.held)
	} else {
		e.is("the cancelled call", w.err, lockmw.ErrBusy, context.Canceled)
	}
}

func readerCancelledAtGrant(e *env) {
	a, b, c := e.client(), e.client(), e.client()
	for round := range e.instants() {
		key := e.key("item")
		writer := e.write(a, key)
		cancelled := e.wait(b.reader(), key)
		reader := e.wait([]*client{b, c}[round%2].reader(), key)
		next := e.wait([]*client{b, c}[round/2%2].rw, key)
		e.meet(writer, cancelled)
		_, held := reader.gets(e.soon)
		next.isWaiting()
		e.release(held)
		e.unlock(next.gets(e.soon))
		if e.t.Failed() {
			return
		}
	}
}

func writerCancelledAtGrant(e *env) {
	a, b, c := e.client(), e.client(), e.client()
	for round := range e.instants() {
		key := e.key("item")
		first := e.read(a, key)
		cancelled := e.wait(b.rw, key)
		readers := []*waiter{e.behind(a, key), e.behind([]*client{b, c}[round%2], key)}
		e.meet(first, cancelled)
		e.release(e.together(readers)...)
		e.free(c.rw, key)
		if e.t.Failed() {
			return
		}
	}
}

func readerCancelledAtAcquire(e *env) {
	a, b := e.client(), e.client()
	for range e.instants() {
		key := e.key("item")
		ctx, cancel := context.WithCancel(e.ctx)
		calls := []*waiter{e.call(ctx, a.reader(), key), e.call(e.ctx, a.reader(), key)}
		if !e.cfg.Bubble {
			e.pass(time.Duration(rand.IntN(500)) * time.Microsecond) // spread over the acquire
		}
		cancel()
		if !calls[0].returns(e.soon) {
			return
		}
		if calls[0].err == nil {
			e.release(calls[0].held)
		} else {
			e.is("the cancelled call", calls[0].err, context.Canceled)
		}
		_, held := calls[1].gets(e.soon) // they may have asked together
		e.busy(b.rw, key)
		e.release(held)
		e.free(b.rw, key)
		if e.t.Failed() {
			return
		}
	}
}

func readerLeavesBehindWriter(e *env) {
	clients, key := e.clients(2), e.key("item")
	first := e.read(clients[0], key)
	w := e.wait(clients[1].rw, key)
	r := e.behind(clients[0], key)
	r.cancel()
	r.fails(e.soon, context.Canceled)
	w.isWaiting()
	e.busy(clients[1].reader(), key)
	e.release(first)
	e.unlock(w.gets(e.soon))
	e.nobodyQueued(key)
}

func closeEndsBothSides(e *env) {
	a, b := e.client(), e.client()
	mine, theirs, shared := e.key("item"), e.key("item"), e.key("item")
	reading := []*Held{e.read(a, mine), e.read(a, mine), e.read(a, shared)}
	held := e.write(b, theirs)
	kept := e.read(b, shared)
	waiting := []*waiter{e.wait(a.reader(), theirs), e.wait(a.reader(), theirs), e.wait(a.rw, theirs), e.wait(a.rw, shared)}
	next, behind := e.wait(b.rw, mine), e.behind(b, shared)
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	for _, w := range waiting {
		w.fails(e.soon, lockmw.ErrClosed)
	}
	for _, h := range reading {
		if e.ends(h.ctx) {
			e.is("the cause of the context's end", context.Cause(h.ctx), lockmw.ErrClosed)
		}
		e.is("Unlock after Close", h.Unlock(), lockmw.ErrClosed)
	}
	for _, l := range []lockmw.Locker{a.reader(), a.rw} {
		_, _, err := e.rec.Lock(e.ctx, l, e.key("item"))
		e.is("Lock after Close", err, lockmw.ErrClosed)
	}
	e.unlock(next.gets(e.soon))
	e.unlock(behind.gets(e.soon)) // no writer is before it any more
	e.alive(kept)
	e.busy(b.rw, shared)
	e.release(kept, held)
	e.free(b.rw, shared)
	e.free(b.rw, theirs)
}

func closeBothUnderLoad(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	stop := e.crowd(b.reader(), key, 5, time.Millisecond)
	stopWriters := e.crowd(b.rw, key, 2, time.Millisecond)
	var calls []*waiter
	for i := range 40 {
		l := a.reader()
		if i%4 == 0 {
			l = a.rw
		}
		calls = append(calls, e.call(e.ctx, l, key))
	}
	e.pass(5 * time.Millisecond) // some have it now, and keep it
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	for _, w := range calls {
		switch {
		case !w.returns(e.soon):
		case w.err != nil:
			e.is("a call of the closed client", w.err, lockmw.ErrClosed)
		default:
			_ = w.held.Unlock() // it says that the client is closed
		}
	}
	e.gets(key, 20)
	stop()
	stopWriters()
	e.free(b.rw, key)
}

func shutdownWaitsForReaders(e *env) {
	const lease = 200 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("item")
	holds := []*Held{e.read(a, key, lockmw.WithLease(lease)), e.read(a, key, lockmw.WithLease(lease))}
	w := e.wait(a.rw, key)
	var shutdown error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		shutdown = a.redis.Shutdown(e.ctx)
	}()
	w.fails(e.soon, lockmw.ErrClosed)
	for range 2 {
		_, _, err := e.rec.Lock(e.ctx, a.reader(), key)
		e.is("Lock after Shutdown", err, lockmw.ErrClosed)
		e.pass(2 * lease)
		e.alive(holds...)
		select {
		case <-returned:
			e.t.Fatalf("Shutdown returned before the holds' end: %v", shutdown)
		default:
		}
		e.busy(b.rw, key)
		e.release(holds[0])
		holds = holds[1:]
	}
	if !e.pace.wait(returned, e.soon) {
		e.t.Error("Shutdown does not return after the last hold's end")
	} else if shutdown != nil {
		e.t.Errorf("Shutdown: %v", shutdown)
	}
	e.free(b.rw, key)
}
