package locktest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A waiter is a call that waits for a lock.
type waiter struct {
	e      *env
	cancel context.CancelFunc
	done   chan struct{} // closed when the call has returned

	// Set before done is closed.
	ctx  context.Context
	held *Held
	err  error
	at   time.Time
}

// wait starts a call for a lock that somebody else has, and returns when it is queued: a rival of l.
func (e *env) wait(l lockmw.Locker, key string, opts ...lockmw.Option) *waiter {
	e.t.Helper()
	return e.waitWith(e.ctx, l, key, opts...)
}

func (e *env) waitWith(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *waiter {
	e.t.Helper()
	queued := make(chan struct{})
	first := sync.OnceFunc(func() { close(queued) })
	opts = append(opts, lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { first() },
	}))
	w := e.call(ctx, rivalOf(l), key, opts...)
	select {
	case <-queued:
	case <-w.done:
		e.t.Errorf("the call did not have to wait: %v", w.err)
	case <-time.After(patience):
		e.t.Fatal("the call neither waits nor returns")
	}
	return w
}

// call starts a call that may or may not have to wait.
func (e *env) call(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *waiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{e: e, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.ctx, w.held, w.err = e.rec.Lock(ctx, l, key, opts...)
		w.at = time.Now()
	}()
	e.t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

// returns waits for the end of the call.
func (w *waiter) returns(within time.Duration) bool {
	w.e.t.Helper()
	if w.returned() || w.e.pace.wait(w.done, within) { // it must not lose against a limit of 0
		return true
	}
	w.e.t.Errorf("the call has not returned after %v", within)
	return false
}

// gets checks that the call gets the lock.
func (w *waiter) gets(within time.Duration) (context.Context, *Held) {
	w.e.t.Helper()
	if !w.returns(within) {
		w.e.t.FailNow()
	}
	if w.err != nil {
		w.e.t.Fatalf("the waiting call: %v", w.err)
	}
	return w.ctx, w.held
}

// fails checks that the call fails with errors that wrap all of want.
func (w *waiter) fails(within time.Duration, want ...error) {
	w.e.t.Helper()
	if w.returns(within) {
		w.e.is("the waiting call", w.err, want...)
	}
}

// first returns the first of the calls that returns.
func (e *env) first(within time.Duration, waiters []*waiter) *waiter {
	e.t.Helper()
	stop, got := make(chan struct{}), make(chan *waiter)
	defer close(stop)
	for _, w := range waiters {
		go func() {
			select {
			case <-w.done:
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
		if left = within - e.pace.since(start); left <= 0 {
			e.t.Fatalf("none of %d calls has returned after %v", len(waiters), within)
		}
	}
}

// without returns the waiters other than w.
func without(waiters []*waiter, w *waiter) []*waiter {
	return slices.DeleteFunc(slices.Clone(waiters), func(other *waiter) bool { return other == w })
}

// isWaiting checks that the call has not returned.
func (w *waiter) isWaiting() {
	w.e.t.Helper()
	if w.returned() {
		w.e.t.Errorf("the call has returned: %v", w.err)
	}
}

func (w *waiter) returned() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// contend runs n goroutines, each of which takes key from the clients in turn and calls work under
// the lock, rounds times.
func (e *env) contend(clients []*client, key string, n, rounds int, work func(h *Held)) {
	var wg sync.WaitGroup
	for i := range n {
		l := clients[i%len(clients)].nth(i / len(clients))
		wg.Go(func() {
			for range rounds {
				ctx, held, err := e.rec.Lock(e.ctx, l, key)
				if err != nil {
					e.t.Errorf("Lock: %v", err)
					return
				}
				work(held)
				e.unlock(ctx, held)
			}
		})
	}
	wg.Wait()
}

// A room is what a lock guards: many who read may be inside, or one who does not.
type room struct{ inside atomic.Int64 }

// whole is what one inside counts who does not read.
const whole = 1 << 32

// enter returns a function that leaves again.
func (r *room) enter(e *env, h *Held) (leave func()) {
	e.t.Helper()
	n := int64(whole)
	if h.reads {
		n = 1
	}
	if now := r.inside.Add(n); now > whole || now < whole && !h.reads {
		e.t.Errorf("%d read and %d do not, at once", now%whole, now/whole)
	}
	return func() { r.inside.Add(-n) }
}
