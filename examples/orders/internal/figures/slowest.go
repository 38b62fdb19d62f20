package figures

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/lockmw"
)

// A Wait is an attempt that had to wait, with the holder at the start of the wait.
type Wait struct {
	Key    string
	Actor  string // the waiting caller
	Span   trace.SpanContext
	Waited time.Duration
	Holder lockmw.Holder
	HeldBy string // the holder's actor, if it runs in this process
}

// Slowest keeps the longest waits for any lock. A tracing backend stores the same data permanently;
// the holder's trace id leads to it.
type Slowest struct {
	keep int

	mu     sync.Mutex
	waits  []Wait
	actors map[trace.SpanID]string // by the acquire_lock span of an attempt
	ended  []trace.SpanID          // ended attempts, the oldest first
}

// retired is the number of ended attempts to keep, because a waiter may learn of its holder only after
// the release.
const retired = 10_000

// NewSlowest returns a Slowest that keeps this many waits.
func NewSlowest(keep int) *Slowest {
	return &Slowest{keep: keep, actors: make(map[trace.SpanID]string)}
}

type (
	actorKey   struct{}
	waitingKey struct{}
)

// WithActor names the actor that takes the locks of ctx.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// Waiting returns the Wait of the current attempt. Call it from an Observer added after that of Slowest.
func Waiting(ctx context.Context) *Wait {
	w, _ := ctx.Value(waitingKey{}).(*Wait)
	return w
}

// Observer returns the observer of waits. Add it after that of tracing, so that Start sees the
// acquire_lock span, whose traceparent is stored with the lock.
func (s *Slowest) Observer() *lockmw.Observer {
	return &lockmw.Observer{
		Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
			w := &Wait{Key: a.Key, Span: trace.SpanContextFromContext(ctx)}
			w.Actor, _ = ctx.Value(actorKey{}).(string)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.actors[w.Span.SpanID()] = w.Actor
			return context.WithValue(ctx, waitingKey{}, w)
		},
		Contended: func(ctx context.Context, _ lockmw.Attempt, c lockmw.Contention) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(c.Holders) > 0 {
				w := Waiting(ctx)
				w.Holder = c.Holders[0]
				w.HeldBy = s.actors[spanOf(w.Holder.TraceParent).SpanID()]
			}
		},
		Acquired: func(ctx context.Context, _ lockmw.Attempt, g lockmw.Acquisition) context.Context {
			if g.Contended {
				s.add(Waiting(ctx), g.Waited)
			}
			return ctx
		},
		Failed: func(ctx context.Context, _ lockmw.Attempt, err error) {
			w := Waiting(ctx)
			if e, ok := errors.AsType[*lockmw.Error](err); ok && e.Waited > 0 {
				s.add(w, e.Waited)
			}
			s.retire(w)
		},
		Released: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Release) { s.retire(Waiting(ctx)) },
	}
}

func (s *Slowest) add(w *Wait, waited time.Duration) {
	if strings.HasPrefix(w.Key, "idem:") {
		return // for the answer to an earlier click, which takes as long as that click
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Waited = waited
	byWaited := func(a Wait, d time.Duration) int { return cmp.Compare(d, a.Waited) }
	i, _ := slices.BinarySearchFunc(s.waits, waited, byWaited)
	if i < s.keep {
		s.waits = slices.Insert(s.waits, i, *w)
		s.waits = s.waits[:min(len(s.waits), s.keep)]
	}
}

// retire notes the end of an attempt and drops the oldest beyond the limit.
func (s *Slowest) retire(w *Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, w.Span.SpanID())
	if len(s.ended) > retired {
		delete(s.actors, s.ended[0])
		s.ended = s.ended[1:]
	}
}

// List returns the waits, the longest first.
func (s *Slowest) List() []Wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waits)
}

// spanOf parses a stored traceparent; it returns the zero SpanContext if it is invalid.
func spanOf(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	return trace.SpanContextFromContext(ctx)
}
