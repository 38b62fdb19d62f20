package main

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

const (
	sceneTurns = 4 // two requests and their tasks
	sceneTakes = 300 * time.Millisecond
)

// A scene makes those who want the one item come in a fixed order. Each comes when the one before
// holds it, and whoever holds it stays until the next one waits, and a while longer to be seen.
type scene struct {
	held   chan struct{} // gets a value for each who gets the item
	queued chan struct{} // … and for each who begins to wait for it

	mu    sync.Mutex
	turns []*turn
}

// A turn is one hold of the item, and the wait before it.
type turn struct {
	wait
	contended bool
	held      time.Duration
}

func newScene() *scene {
	return &scene{held: make(chan struct{}, sceneTurns), queued: make(chan struct{}, sceneTurns)}
}

// conditions are such that no task stays on when ctx ends; requests end with their clients.
func (s *scene) conditions(ctx context.Context) conditions {
	return conditions{
		locked: true,
		bank:   s.stay,
		carrier: func(task context.Context) error {
			task, end := context.WithCancelCause(task)
			defer end(nil)
			defer context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })()
			return s.stay(task)
		},
		admit:      func(ctx context.Context) error { return await(ctx, s.held) },
		deliveries: 1,
		patience:   5 * time.Second,
		observer:   s.observer(),
	}
}

// stay is called by the one whose turn it is.
func (s *scene) stay(ctx context.Context) error {
	if len(s.list()) < sceneTurns {
		if err := await(ctx, s.queued); err != nil {
			return err
		}
	}
	return pause(ctx, sceneTakes)
}

// notify does not block: it is called in callbacks, and there is room for as many as are waited for.
func notify(event chan<- struct{}) {
	select {
	case event <- struct{}{}:
	default:
	}
}

func await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type turnKey struct{}

// observer must be added after that of slowest, which knows who waits for whom.
func (s *scene) observer() *lockmw.Observer {
	return &lockmw.Observer{
		Contended: func(_ context.Context, a lockmw.Attempt, _ lockmw.Contention) {
			if a.Name == "item" {
				notify(s.queued)
			}
		},
		Acquired: func(ctx context.Context, a lockmw.Attempt, g lockmw.Grant) context.Context {
			if a.Name != "item" {
				return ctx
			}
			t := &turn{wait: *waiting(ctx), contended: g.Contended}
			t.waited = g.Waited
			s.mu.Lock()
			s.turns = append(s.turns, t)
			s.mu.Unlock()
			notify(s.held)
			return context.WithValue(ctx, turnKey{}, t)
		},
		Released: func(ctx context.Context, a lockmw.Attempt, r lockmw.Release) {
			if t, ok := ctx.Value(turnKey{}).(*turn); ok && a.Name == "item" {
				s.mu.Lock()
				defer s.mu.Unlock()
				t.held = r.Held
			}
		},
	}
}

// list returns the turns in their order.
func (s *scene) list() []turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	turns := make([]turn, len(s.turns))
	for i, t := range s.turns {
		turns[i] = *t
	}
	return turns
}
