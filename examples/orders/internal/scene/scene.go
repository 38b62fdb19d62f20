// Package scene makes two requests for one item, and their tasks, wait in a fixed order.
package scene

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/orders/internal/figures"
	"github.com/lockmw/go/lockmw"
)

const (
	turns = 4 // two requests and their tasks

	// Takes is how long a holder keeps the lock after the next caller waits, so that the wait is visible.
	Takes = 300 * time.Millisecond
)

// A Scene starts each caller once the one before holds the item. A holder keeps the lock until the next
// caller waits, and for Takes after that.
type Scene struct {
	held   chan struct{} // receives a value for each hold of the item
	queued chan struct{} // receives a value for the start of each wait

	mu    sync.Mutex
	turns []*Turn
}

// A Turn is one hold of the item, and the wait before it.
type Turn struct {
	figures.Wait
	Contended bool
	Held      time.Duration
}

// New returns a Scene without callers.
func New() *Scene {
	return &Scene{held: make(chan struct{}, turns), queued: make(chan struct{}, turns)}
}

// Stay must be called by each holder of the item. It returns when the hold may end.
func (s *Scene) Stay(ctx context.Context) error {
	if len(s.Turns()) < turns {
		if err := await(ctx, s.queued); err != nil {
			return err
		}
	}
	return clock.Sleep(ctx, Takes)
}

// AwaitHold waits for the next hold of the item.
func (s *Scene) AwaitHold(ctx context.Context) error { return await(ctx, s.held) }

// notify does not block, because callbacks call it. The channel has room for all events that are awaited.
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

// Observer returns the observer of the scene. Add it after that of figures.Slowest, which identifies the holder of each wait.
func (s *Scene) Observer() *lockmw.Observer {
	return &lockmw.Observer{
		Contended: func(_ context.Context, a lockmw.Attempt, _ lockmw.Contention) {
			if a.Name == "item" {
				notify(s.queued)
			}
		},
		Acquired: func(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
			if a.Name != "item" {
				return ctx
			}
			t := &Turn{Wait: *figures.Waiting(ctx), Contended: g.Contended}
			t.Waited = g.Waited
			s.mu.Lock()
			s.turns = append(s.turns, t)
			s.mu.Unlock()
			notify(s.held)
			return context.WithValue(ctx, turnKey{}, t)
		},
		Released: func(ctx context.Context, a lockmw.Attempt, r lockmw.Release) {
			if t, ok := ctx.Value(turnKey{}).(*Turn); ok && a.Name == "item" {
				s.mu.Lock()
				defer s.mu.Unlock()
				t.Held = r.Held
			}
		},
	}
}

// Turns returns the turns in their order.
func (s *Scene) Turns() []Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Turn, len(s.turns))
	for i, t := range s.turns {
		list[i] = *t
	}
	return list
}

// Play lets ann order the item, and bob once ann holds it. It returns when both orders are answered.
func (s *Scene) Play(ctx context.Context, order func(ctx context.Context, user string) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wg sync.WaitGroup
	begin := func(user string) {
		wg.Go(func() {
			if err := order(ctx, user); err != nil {
				fail(err)
			}
		})
	}
	begin("ann")
	if s.AwaitHold(ctx) == nil {
		begin("bob")
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
