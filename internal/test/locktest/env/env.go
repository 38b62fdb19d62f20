// Package env provides the environment of the scenarios in package locktest: clients, processes, a server, waiting calls and
// shared checks. The scenarios are in the packages next to it.
package env

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// An Env is the environment of one scenario.
type Env struct {
	Checks
	TB     testing.TB // the test of the scenario
	Config Config
	Rec    *recording.Recorder
	Ctx    context.Context
	Server *Server // nil for a Local

	Local *lockmw.Local // nil if there is a server

	goroutines leak.Goroutines // started by the scenario
}

// New makes the environment of a scenario with c.
func New(t *testing.T, c Config) *Env {
	t.Helper()
	checks := Checks{T: t, Soon: 50 * time.Millisecond, Pace: c.pace}
	if !c.Bubble {
		// Allow for a busy machine. It must stay below the poll interval, so that an event found only by the next poll is late.
		checks.Soon = 600 * time.Millisecond
	}
	if c.OverNodes != nil {
		checks.Soon = 700 * time.Millisecond // bids of several processes may collide and back off at random
	}
	e := &Env{Checks: checks, TB: t, Config: c, goroutines: leak.Check(t)}
	e.Rec = e.NewRecorder()
	ctx, cancel := context.WithDeadline(t.Context(), c.end(t))
	t.Cleanup(cancel)
	e.Ctx = ctx
	if c.Server == nil {
		e.Local = lockmw.NewLocal()
		return e
	}
	e.Server = newServer(t, e, c.shared)
	t.Cleanup(e.checkClosed) // after the clients' cleanups
	return e
}

// end returns when the calls of a scenario that hangs are to end, so that it reports which one hangs.
func (c Config) end(t *testing.T) time.Time {
	if c.Bubble {
		return time.Now().Add(24 * time.Hour) // bubble time is free
	}
	if deadline, ok := t.Deadline(); ok {
		return deadline.Add(-Patience)
	}
	return time.Now().Add(15 * time.Minute)
}

// Round returns the environment of one round of a model. It fails t, its context ends with t, and its recorder is new.
func (e *Env) Round(t *rapid.T) *Env {
	round := *e
	ctx, cancel := context.WithCancel(e.Ctx)
	t.Cleanup(cancel)
	round.T, round.Ctx, round.Rec = t, ctx, e.NewRecorder()
	if e.Server != nil {
		server := *e.Server
		server.e = &round
		round.Server = &server
	}
	return &round
}

// NewRecorder returns a recorder that allows for delays of this machine.
func (e *Env) NewRecorder() *recording.Recorder {
	r := recording.NewRecorder(e.Soon)
	r.Pace = e.Pace
	return r
}

// Key returns a key that no other test uses.
func (e *Env) Key(kind string) string { return lockmw.Key(kind, rand.Text()) }

// Lock takes a lock that must be free.
func (e *Env) Lock(l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *recording.Held) {
	e.T.Helper()
	return e.LockWith(e.Ctx, l, key, opts...)
}

// LockWith is Lock with a context other than the scenario's.
func (e *Env) LockWith(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *recording.Held) {
	e.T.Helper()
	ctx, held, err := e.Rec.Lock(ctx, l, key, opts...)
	if err != nil {
		e.T.Fatalf("Lock: %v", err)
	}
	return ctx, held
}

// Unlock releases a hold. Its parameters are Lock's results.
func (e *Env) Unlock(_ context.Context, h *recording.Held) {
	e.T.Helper()
	if err := h.Unlock(); err != nil {
		e.T.Errorf("Unlock: %v", err)
	}
}

// Pass lets d pass, where the elapsed time itself matters.
func (e *Env) Pass(d time.Duration) { Sleep(e.Ctx, d) }

// Sleep waits for d or the end of ctx.
func Sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// Free checks that l can take key exclusively within Soon.
func (e *Env) Free(l lockmw.Locker, key string) {
	e.T.Helper()
	start := time.Now()
	_, held, err := e.Rec.Lock(e.Ctx, rivalOf(l), key, lockmw.WithWait(e.Soon))
	for left := e.Soon - e.Pace.Since(start); err != nil && left > 0; left = e.Soon - e.Pace.Since(start) {
		_, held, err = e.Rec.Lock(e.Ctx, rivalOf(l), key, lockmw.WithWait(left))
	}
	if err != nil {
		e.T.Errorf("the key is not free: %v", err)
		return
	}
	e.Unlock(e.Ctx, held)
}

// AwaitCancelled waits until the server has removed the tickets of cancelled calls: until then it may grant them the lock. done
// reports whether the queue is as expected.
func (e *Env) AwaitCancelled(key string, done func(queued []lockmw.Waiter) bool) {
	e.T.Helper()
	switch {
	case e.Config.Bubble:
		synctest.Wait()
	case e.Server != nil:
		e.Eventually(e.Soon, func() string {
			if queued := e.Server.Status(key).Waiters; !done(queued) {
				return fmt.Sprintf("cancelled calls are still queued: %+v", queued)
			}
			return ""
		})
	}
}

// Busy checks that key is held.
func (e *Env) Busy(l lockmw.Locker, key string) {
	e.T.Helper()
	_, held, err := rivalOf(l).Lock(e.Ctx, key, lockmw.WithWait(0))
	if err == nil {
		e.T.Errorf("the key is free; unlocking it returned %v", held.Unlock())
	} else if !errors.Is(err, lockmw.ErrBusy) {
		e.T.Errorf("TryLock of a busy key: %v, want ErrBusy", err)
	}
}

// Lost checks that a hold was lost and its context has ended.
func (e *Env) Lost(ctx context.Context, h *recording.Held) {
	e.T.Helper()
	if !e.Ends(ctx) {
		return
	}
	e.Is("the cause of the context's end", context.Cause(ctx), lockmw.ErrLost)
	e.Is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
}

// Flush runs FLUSHALL and records it.
func (e *Env) Flush(passed bool) {
	e.T.Helper()
	e.Rec.Lose(passed, func() int64 {
		var clock *redis.TimeCmd
		_, err := e.Server.Admin.TxPipelined(e.Ctx, func(p redis.Pipeliner) error {
			p.FlushAll(e.Ctx)
			clock = p.Time(e.Ctx)
			return nil
		})
		if err != nil {
			e.T.Error(err)
		}
		return clock.Val().UnixMicro()
	})
}

// Reaped checks that dead tickets are removed when a client takes the lock.
func (e *Env) Reaped(key string) {
	e.T.Helper()
	c := e.Client()
	e.Eventually(2*AcceptWindow+DeadAfter, func() string {
		ctx, held, err := e.Rec.Lock(e.Ctx, c, key, lockmw.WithWait(e.Soon))
		if err != nil {
			return err.Error()
		}
		e.Unlock(ctx, held)
		if e.Server.Admin.Exists(e.Ctx, e.Server.QueueKey(key)).Val() == 1 {
			return "dead tickets are left"
		}
		return ""
	})
}

// Force releases a hold with ForceUnlock.
func (e *Env) Force(key string, h lockmw.Holder) {
	e.T.Helper()
	inspector := e.Server.Inspector()
	e.Rec.Forfeit()
	if err := inspector.ForceUnlock(e.Ctx, key, h); err != nil {
		e.T.Errorf("ForceUnlock: %v", err)
	}
	e.Is("second ForceUnlock", inspector.ForceUnlock(e.Ctx, key, h), lockmw.ErrNotHeld)
}
