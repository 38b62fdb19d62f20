package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/lockmw"
)

// A wait is one attempt that had to queue, and who had the lock when it began to.
type wait struct {
	key      string
	actor    string
	span     trace.SpanContext
	waited   time.Duration
	position int
	holder   lockmw.Holder
	heldBy   string // the holder's actor, if it is in this process
	err      error  // why it did not get the lock
}

// slowest remembers the longest waits for any lock. A tracing backend answers the same questions
// for good: the holder's trace id leads to it.
type slowest struct {
	keep int

	mu     sync.Mutex
	waits  []wait
	actors map[trace.SpanID]string // those who hold a lock or ask for one, by their acquire_lock span
}

func newSlowest(keep int) *slowest {
	return &slowest{keep: keep, actors: make(map[trace.SpanID]string)}
}

type (
	actorKey   struct{}
	waitingKey struct{}
)

// withActor says who is about to ask for locks.
func withActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// observer must be added after that of tracing: Start then sees the acquire_lock span, whose
// traceparent is stored with the lock.
func (s *slowest) observer() *lockmw.Observer {
	return &lockmw.Observer{
		Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
			w := &wait{key: a.Key, span: trace.SpanContextFromContext(ctx)}
			w.actor, _ = ctx.Value(actorKey{}).(string)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.actors[w.span.SpanID()] = w.actor
			return context.WithValue(ctx, waitingKey{}, w)
		},
		Contended: func(ctx context.Context, _ lockmw.Attempt, c lockmw.Contention) {
			s.mu.Lock()
			defer s.mu.Unlock()
			w := waiting(ctx)
			w.position = c.Position
			if len(c.Holders) > 0 {
				w.holder = c.Holders[0]
				w.heldBy = s.actors[spanOf(w.holder.TraceParent).SpanID()]
			}
		},
		Acquired: func(ctx context.Context, _ lockmw.Attempt, g lockmw.Grant) context.Context {
			if g.Contended {
				s.add(waiting(ctx), g.Waited, nil)
			}
			return ctx
		},
		Failed: func(ctx context.Context, _ lockmw.Attempt, err error) {
			w := waiting(ctx)
			if e, ok := errors.AsType[*lockmw.Error](err); ok && e.Waited > 0 {
				s.add(w, e.Waited, err)
			}
			s.forget(w)
		},
		Released: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Release) { s.forget(waiting(ctx)) },
	}
}

func waiting(ctx context.Context) *wait {
	w, _ := ctx.Value(waitingKey{}).(*wait)
	return w
}

func (s *slowest) add(w *wait, waited time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.waited, w.err = waited, err
	byWaited := func(a wait, d time.Duration) int { return cmp.Compare(d, a.waited) }
	i, _ := slices.BinarySearchFunc(s.waits, waited, byWaited)
	if i < s.keep {
		s.waits = slices.Insert(s.waits, i, *w)
		s.waits = s.waits[:min(len(s.waits), s.keep)]
	}
}

func (s *slowest) forget(w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.actors, w.span.SpanID())
}

// list returns the waits, the longest first.
func (s *slowest) list() []wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waits)
}

// spanOf reads a stored traceparent; the zero SpanContext if it is none.
func spanOf(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	return trace.SpanContextFromContext(ctx)
}
