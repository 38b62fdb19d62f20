package rw

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var readersLeaving = []env.Scenario{
	env.Case("a writer that is cancelled at the moment of its grant keeps no reader out", writerCancelledAtGrant, env.TwoSided|env.Shares),
	env.Case("Close ends holds and waits of readers and writers", closeEndsBothSides, env.TwoSided|env.OnServer|env.Shares|env.Sample),
	env.Case("Close under load of both sides ends every call", closeBothUnderLoad, env.TwoSided|env.OnServer|env.Shares),
	env.Case("Shutdown waits until readers finish", shutdownWaitsForReaders, env.TwoSided|env.OnServer|env.Shares),
}

// nobodyQueued checks that key's queues are empty.
func nobodyQueued(e *env.Env, key string) {
	e.T.Helper()
	if e.Server == nil {
		return
	}
	e.Eventually(e.Soon, func() string {
		for _, part := range []string{":queue", ":readqueue"} {
			if n := e.Server.Admin.ZCard(e.Ctx, e.Server.RedisKey(key)+part).Val(); n > 0 {
				return part + " is not empty"
			}
		}
		return ""
	})
}

// instants returns how often a scenario tries to hit a race.
func instants(e *env.Env) int {
	if e.Config.Bubble {
		return 100
	}
	return 40
}

// meet releases a hold and, at about the same time, cancels a call that waits for it.
func meet(e *env.Env, held *recording.Held, w *env.Waiter) {
	e.T.Helper()
	released := make(chan struct{})
	go func() {
		defer close(released)
		release(e, held)
	}()
	if !e.Config.Bubble { // in a bubble the scheduler alone decides the order
		e.Pass(time.Duration(rand.IntN(1500)) * time.Microsecond) // spread over the hand-over
	}
	w.Cancel()
	<-released
	if !w.Returns(e.Soon) {
		e.T.FailNow()
	}
	if w.Err == nil {
		release(e, w.Held)
	} else {
		e.Is("the cancelled call", w.Err, lockmw.ErrBusy, context.Canceled)
	}
}

func writerCancelledAtGrant(e *env.Env) {
	a, b, c := e.Client(), e.Client(), e.Client()
	for round := range instants(e) {
		key := e.Key("item")
		first := read(e, a, key)
		cancelled := e.Wait(b.RW, key)
		readers := []*env.Waiter{behind(e, a, key), behind(e, []*env.Client{b, c}[round%2], key)}
		meet(e, first, cancelled)
		release(e, together(e, readers)...)
		e.Free(c.RW, key)
		if e.T.Failed() {
			return
		}
	}
}

func closeEndsBothSides(e *env.Env) {
	a, b := e.Client(), e.Client()
	mine, theirs, shared := e.Key("item"), e.Key("item"), e.Key("item")
	reading := []*recording.Held{read(e, a, mine), read(e, a, mine), read(e, a, shared)}
	held := write(e, b, theirs)
	kept := read(e, b, shared)
	waiting := []*env.Waiter{e.Wait(a.Reader(), theirs), e.Wait(a.Reader(), theirs), e.Wait(a.RW, theirs), e.Wait(a.RW, shared)}
	next, behind := e.Wait(b.RW, mine), behind(e, b, shared)
	if err := a.Redis.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	for _, w := range waiting {
		w.Fails(e.Soon, lockmw.ErrClosed)
	}
	for _, h := range reading {
		if e.Ends(h.Ctx) {
			e.Is("the cause of the context's end", context.Cause(h.Ctx), lockmw.ErrClosed)
		}
		e.Is("Unlock after Close", h.Unlock(), lockmw.ErrClosed)
	}
	for _, l := range []lockmw.Locker{a.Reader(), a.RW} {
		_, _, err := e.Rec.Lock(e.Ctx, l, e.Key("item"))
		e.Is("Lock after Close", err, lockmw.ErrClosed)
	}
	e.Unlock(next.Gets(e.Soon))
	e.Unlock(behind.Gets(e.Soon)) // no writer is in front any more
	alive(e, kept)
	e.Busy(b.RW, shared)
	release(e, kept, held)
	e.Free(b.RW, shared)
	e.Free(b.RW, theirs)
}

func closeBothUnderLoad(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	stop := e.Crowd(b.Reader(), key, 5, time.Millisecond)
	stopWriters := e.Crowd(b.RW, key, 2, time.Millisecond)
	var calls []*env.Waiter
	for i := range 40 {
		l := a.Reader()
		if i%4 == 0 {
			l = a.RW
		}
		calls = append(calls, e.Call(e.Ctx, l, key))
	}
	e.Pass(5 * time.Millisecond) // some calls hold the lock now and keep it
	if err := a.Redis.Close(); err != nil {
		e.T.Errorf("Close: %v", err)
	}
	for _, w := range calls {
		switch {
		case !w.Returns(e.Soon):
		case w.Err != nil:
			e.Is("a call of the closed client", w.Err, lockmw.ErrClosed)
		default:
			_ = w.Held.Unlock() // returns ErrClosed
		}
	}
	gets(e, key, 20)
	stop()
	stopWriters()
	e.Free(b.RW, key)
}

func shutdownWaitsForReaders(e *env.Env) {
	lease := e.Ample(600 * time.Millisecond)
	a, b, key := e.Client(), e.Client(), e.Key("item")
	holds := []*recording.Held{read(e, a, key, lockmw.WithLease(lease)), read(e, a, key, lockmw.WithLease(lease))}
	w := e.Wait(a.RW, key)
	var shutdown error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		shutdown = a.Redis.Shutdown(e.Ctx)
	}()
	w.Fails(e.Soon, lockmw.ErrClosed)
	for range 2 {
		_, _, err := e.Rec.Lock(e.Ctx, a.Reader(), key)
		e.Is("Lock after Shutdown", err, lockmw.ErrClosed)
		e.Pass(lease + lease/4)
		alive(e, holds...)
		select {
		case <-returned:
			e.T.Fatalf("Shutdown returned before the holds ended: %v", shutdown)
		default:
		}
		e.Busy(b.RW, key)
		release(e, holds[0])
		holds = holds[1:]
	}
	if !env.Wait(e.Pace, returned, e.Soon) {
		e.T.Error("Shutdown did not return after the last hold ended")
	} else if shutdown != nil {
		e.T.Errorf("Shutdown: %v", shutdown)
	}
	e.Free(b.RW, key)
}
