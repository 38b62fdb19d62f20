// Package inproc implements locks within one process: first come, first served, and phase-fair
// between readers and writers (Brandenburg and Anderson, "Reader-Writer Synchronization for
// Shared-Memory Multiprocessor Real-Time Systems", 2009).
package inproc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
)

// Locks implements core.Locks. The zero value is ready to use.
type Locks struct {
	mu    sync.Mutex
	keys  map[string]*entry
	token int64
}

// An entry is the state of one key; it exists while the key is held, kept or waited for.
type entry struct {
	key     string
	holds   []*grant // one writer, or readers
	kept    bool     // released, but taken until its minimum hold is over
	waiting []*waiter
}

type waiter struct {
	req   *core.Request
	ready chan *grant // has room for one
}

// Acquire implements core.Locks.
func (l *Locks) Acquire(ctx context.Context, r *core.Request) (core.Grant, error) {
	l.mu.Lock()
	e := l.entry(r.Key)
	if e.admits(r.Mode) && len(e.waiting) == 0 {
		g := l.grant(e, r)
		l.mu.Unlock()
		return g, nil
	}
	if err := e.refuse(r); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	w := &waiter{req: r, ready: make(chan *grant, 1)}
	e.waiting = append(e.waiting, w)
	holders, position := e.holders(), len(e.waiting)
	l.mu.Unlock()

	r.Events.Contended(holders, position)
	return l.wait(ctx, e, w)
}

func (l *Locks) wait(ctx context.Context, e *entry, w *waiter) (core.Grant, error) {
	var limit <-chan time.Time
	if w.req.Wait != core.Forever {
		timer := time.NewTimer(w.req.Wait)
		defer timer.Stop()
		limit = timer.C
	}
	err := core.ErrBusy
	select {
	case g := <-w.ready:
		return g, nil
	case <-limit:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", core.ErrBusy, ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case g := <-w.ready: // granted in this instant: pass it on
		l.end(g, false)
	default:
		e.remove(w)
		l.settle(e, core.Read)
	}
	return nil, &core.AcquireError{Err: err, Holders: e.holders()}
}

func (l *Locks) entry(key string) *entry {
	if l.keys == nil {
		l.keys = make(map[string]*entry)
	}
	e := l.keys[key]
	if e == nil {
		e = &entry{key: key}
		l.keys[key] = e
	}
	return e
}

// admits reports whether the present holds leave room for one more of mode.
func (e *entry) admits(mode core.Mode) bool {
	if e.kept {
		return false
	}
	return len(e.holds) == 0 || mode == core.Read && e.holds[0].req.Mode == core.Read
}

func (e *entry) refuse(r *core.Request) error {
	switch {
	case r.Wait == 0:
		return &core.AcquireError{Err: core.ErrBusy, Holders: e.holders()}
	case r.MaxWaiters > 0 && len(e.waiting) >= r.MaxWaiters:
		return &core.AcquireError{
			Err:     fmt.Errorf("%w: %d wait already", core.ErrTooManyWaiters, len(e.waiting)),
			Holders: e.holders(),
		}
	}
	return nil
}

func (e *entry) holders() []core.Holder {
	holders := make([]core.Holder, 0, len(e.holds))
	for _, g := range e.holds {
		holders = append(holders, core.Holder{
			Owner: g.req.Owner, Process: "local", TraceParent: g.req.Trace, Token: g.token, Since: g.since,
		})
	}
	return holders
}

func (e *entry) remove(w *waiter) {
	for i, other := range e.waiting {
		if other == w {
			e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
			return
		}
	}
}

// settle admits whom the state of e allows to run; after is the mode of the phase that ended. A
// writer's end admits all waiting readers, the end of readers one writer, and while readers hold
// the key more of them are admitted unless a writer waits.
func (l *Locks) settle(e *entry, after core.Mode) {
	readers, writer := e.waitingByMode()
	switch {
	case len(e.waiting) == 0:
		if len(e.holds) == 0 && !e.kept {
			delete(l.keys, e.key)
		}
	case !e.admits(core.Read):
	case len(e.holds) > 0 && writer == nil, len(e.holds) == 0 && len(readers) > 0 && (after != core.Read || writer == nil):
		for _, w := range readers {
			l.admit(e, w)
		}
	case len(e.holds) == 0:
		l.admit(e, writer)
	}
}

func (e *entry) waitingByMode() (readers []*waiter, writer *waiter) {
	for _, w := range e.waiting {
		switch {
		case w.req.Mode == core.Read:
			readers = append(readers, w)
		case writer == nil:
			writer = w
		}
	}
	return readers, writer
}

func (l *Locks) admit(e *entry, w *waiter) {
	e.remove(w)
	w.ready <- l.grant(e, w.req)
}

// Expire loses the holds of key.
func (l *Locks) Expire(key string) {
	l.mu.Lock()
	e := l.keys[key]
	if e == nil {
		l.mu.Unlock()
		return
	}
	lost := append([]*grant(nil), e.holds...)
	for _, g := range lost {
		l.end(g, true)
	}
	l.mu.Unlock()
	for _, g := range lost {
		g.req.Events.Lost(fmt.Errorf("%w: its lease ran out", core.ErrLost))
	}
}
