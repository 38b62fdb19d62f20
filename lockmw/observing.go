package lockmw

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// A watch calls the observers of one attempt.
type watch struct {
	attempt   Attempt
	observers []*Observer
	ctx       context.Context // Start's, then Acquired's
	since     time.Time       // when the lock was acquired
	logger    *slog.Logger
}

// newWatch returns a watch that has not started.
func newWatch(a Attempt, logger *slog.Logger) *watch {
	return &watch{attempt: a, observers: a.Policy.Observers, logger: logger}
}

// start starts observing an attempt with ctx. An observer that panics in Start sees no more of the attempt: its
// later callbacks would find the context of another one.
func (w *watch) start(ctx context.Context) {
	w.ctx = ctx
	for _, o := range w.attempt.Policy.Observers {
		if o.Start == nil {
			continue
		}
		started := w.guard(o, func(o *Observer) { w.ctx = orElse(o.Start(w.ctx, w.attempt), w.ctx) })
		if !started {
			w.observers = slices.DeleteFunc(slices.Clone(w.observers), func(other *Observer) bool { return other == o })
		}
	}
}

// each calls f for every observer. A panic is logged and does not harm the lock.
func (w *watch) each(f func(*Observer)) {
	for _, o := range w.observers {
		w.guard(o, f)
	}
}

// guard calls f, and reports whether f returned without a panic.
func (w *watch) guard(o *Observer, f func(*Observer)) (returned bool) {
	defer func() {
		if v := recover(); v != nil {
			w.logger.Error("lockmw: an observer panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	f(o)
	return true
}

func orElse(ctx, otherwise context.Context) context.Context {
	if ctx == nil {
		return otherwise
	}
	return ctx
}

func (w *watch) traceParent() (trace string) {
	w.each(func(o *Observer) {
		if o.TraceParent != nil && trace == "" {
			trace = o.TraceParent(w.ctx)
		}
	})
	return trace
}

func (w *watch) contended(c Contention) {
	w.each(func(o *Observer) {
		if o.Contended != nil {
			o.Contended(w.ctx, w.attempt, c)
		}
	})
}

// wantsMoves reports whether an observer wants to know how a call moves up in the queue.
func (w *watch) wantsMoves() bool {
	return slices.ContainsFunc(w.observers, func(o *Observer) bool { return o.Waiting != nil })
}

func (w *watch) waiting(c Contention) {
	w.each(func(o *Observer) {
		if o.Waiting != nil {
			o.Waiting(w.ctx, w.attempt, c)
		}
	})
}

func (w *watch) acquired(g Acquisition) {
	w.each(func(o *Observer) {
		if o.Acquired != nil {
			w.ctx = orElse(o.Acquired(w.ctx, w.attempt, g), w.ctx)
		}
	})
}

func (w *watch) failed(err error) {
	w.each(func(o *Observer) {
		if o.Failed != nil {
			o.Failed(w.ctx, w.attempt, err)
		}
	})
}

func (w *watch) renewed(err error) {
	w.each(func(o *Observer) {
		if o.Renewed != nil {
			o.Renewed(w.ctx, w.attempt, w.wrap("renew", err))
		}
	})
}

func (w *watch) lost(err error) {
	w.each(func(o *Observer) {
		if o.Lost != nil {
			o.Lost(w.ctx, w.attempt, w.wrap("hold", err))
		}
	})
}

// wrap makes err an *Error: observers get no other errors.
func (w *watch) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Key: w.attempt.Key, Label: w.attempt.Policy.Label, Err: err}
}

func (w *watch) released(r Release) {
	r.Err = w.wrap("unlock", r.Err)
	w.each(func(o *Observer) {
		if o.Released != nil {
			o.Released(w.ctx, w.attempt, r)
		}
	})
}
