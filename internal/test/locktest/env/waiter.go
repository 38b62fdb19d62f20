package env

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// A Waiter is a call that may wait for a lock.
type Waiter struct {
	E      *Env
	Cancel context.CancelFunc
	Done   chan struct{} // closed when the call has returned

	// Set before Done is closed.
	Ctx  context.Context
	Held *recording.Held
	Err  error
	At   time.Time
}

// Wait starts a call of l's rival for a held lock, and returns once it is queued.
func (e *Env) Wait(l lockmw.Locker, key string, opts ...lockmw.Option) *Waiter {
	e.T.Helper()
	return e.WaitWith(e.Ctx, l, key, opts...)
}

// WaitWith is Wait with a context other than the scenario's.
func (e *Env) WaitWith(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *Waiter {
	e.T.Helper()
	w, queued := e.Arrive(ctx, l, key, opts...)
	if !queued {
		e.T.Errorf("the call did not have to wait: %v", w.Err)
	}
	return w
}

// Arrive is WaitWith for a lock that may be free. It returns once the call is queued and the holder knows of it, or once the
// call has returned.
func (e *Env) Arrive(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (w *Waiter, queued bool) {
	e.T.Helper()
	waits := make(chan struct{})
	first := sync.OnceFunc(func() { close(waits) })
	opts = append(opts, lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { first() },
	}))
	w = e.Call(ctx, rivalOf(l), key, opts...)
	select {
	case <-waits:
		queued = true
		e.AwaitMessages(key)
	case <-w.Done:
	case <-time.After(Patience):
		e.T.Fatal("the call neither waits nor returns")
	}
	return w, queued
}

// Call starts a call that may have to wait.
func (e *Env) Call(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *Waiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &Waiter{E: e, Cancel: cancel, Done: make(chan struct{})}
	go func() {
		defer close(w.Done)
		w.Ctx, w.Held, w.Err = e.Rec.Lock(ctx, l, key, opts...)
		w.At = time.Now()
	}()
	e.T.Cleanup(func() {
		cancel()
		<-w.Done
	})
	return w
}

// Returns waits until the call has returned.
func (w *Waiter) Returns(within time.Duration) bool {
	w.E.T.Helper()
	if w.Returned() || Wait(w.E.Pace, w.Done, within) { // with a limit of 0, a returned call must win
		return true
	}
	w.E.T.Errorf("the call has not returned after %v, %s", within, w.late())
	return false
}

// late reports when a late call returned. For example, a missed message costs a poll interval.
func (w *Waiter) late() string {
	const patience = 3 * time.Second
	start := time.Now()
	select {
	case <-w.Done:
		return fmt.Sprintf("but %v later, with the error %v", time.Since(start).Round(time.Millisecond), w.Err)
	case <-time.After(patience):
		return fmt.Sprintf("nor after %v more", patience)
	}
}

// Gets checks that the call gets the lock.
func (w *Waiter) Gets(within time.Duration) (context.Context, *recording.Held) {
	w.E.T.Helper()
	if !w.Returns(within) {
		w.E.T.FailNow()
	}
	if w.Err != nil {
		w.E.T.Fatalf("the waiting call: %v", w.Err)
	}
	return w.Ctx, w.Held
}

// Fails checks that the call fails with errors that wrap all of want.
func (w *Waiter) Fails(within time.Duration, want ...error) {
	w.E.T.Helper()
	if w.Returns(within) {
		w.E.Is("the waiting call", w.Err, want...)
	}
}

// First returns the first call to return.
func First(within time.Duration, waiters []*Waiter) *Waiter {
	e := waiters[0].E
	e.T.Helper()
	stop, got := make(chan struct{}), make(chan *Waiter)
	defer close(stop)
	for _, w := range waiters {
		go func() {
			select {
			case <-w.Done:
			case <-stop:
				return
			}
			select {
			case got <- w:
			case <-stop:
			}
		}()
	}
	start := time.Now()
	for left := within; ; {
		select {
		case w := <-got:
			return w
		case <-time.After(left):
		}
		if left = within - e.Pace.Since(start); left <= 0 {
			e.T.Fatalf("none of %d calls has returned after %v", len(waiters), within)
		}
	}
}

// Without returns the waiters other than w.
func Without(waiters []*Waiter, w *Waiter) []*Waiter {
	return slices.DeleteFunc(slices.Clone(waiters), func(other *Waiter) bool { return other == w })
}

// IsWaiting checks that the call has not returned.
func (w *Waiter) IsWaiting() {
	w.E.T.Helper()
	if w.Returned() {
		w.E.T.Errorf("the call has returned: %v", w.Err)
	}
}

// Returned reports whether the call has returned.
func (w *Waiter) Returned() bool {
	select {
	case <-w.Done:
		return true
	default:
		return false
	}
}

// RunsBy checks that the call gets the lock by then, with a tolerance of Soon.
func (w *Waiter) RunsBy(then time.Time) {
	w.E.T.Helper()
	w.Gets(max(0, time.Until(then)) + w.E.Soon)
}

// RunsPastDead checks that the call gets the lock within d after start, or after all dead processes that wait for key in front of
// it count as dead. A stall of a second or more makes that later, because beats are missed.
func (w *Waiter) RunsPastDead(key string, start time.Time, d time.Duration) {
	w.E.T.Helper()
	for !Wait(w.E.Pace, w.Done, max(0, time.Until(start.Add(d)))+w.E.Soon) {
		known := w.E.Server.BeatingSince(key).Add(DeadAfter)
		if !known.After(start) {
			w.E.T.Fatalf("the call has not returned %v after dead processes counted as dead, %s", d, w.late())
		}
		start = known
	}
	w.Gets(0)
}

// RunInOrder lets waiting calls take the lock one by one, and checks that the others still wait.
func RunInOrder(waiters []*Waiter) {
	if len(waiters) > 0 {
		waiters[0].E.T.Helper()
		RunInOrderWithin(waiters[0].E.Soon, waiters)
	}
}

// RunInOrderWithin is RunInOrder with a limit of d for each grant, such as where messages may be lost.
func RunInOrderWithin(d time.Duration, waiters []*Waiter) {
	for i, w := range waiters {
		w.E.T.Helper()
		w.Gets(d)
		for _, other := range waiters[i+1:] {
			other.IsWaiting()
		}
		w.E.Unlock(w.Ctx, w.Held)
	}
}
