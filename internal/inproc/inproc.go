// Package inproc implements locks within one process: first come, first served, and phase-fair
// between readers and writers (Brandenburg and Anderson, "Reader-Writer Synchronization for
// Shared-Memory Multiprocessor Real-Time Systems", 2009).
package inproc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
)

// Locks implements core.Locks. The zero value is ready to use.
type Locks struct {
	mu    sync.Mutex
	keys  map[string]*entry
	token int64 // the greatest one given
}

// An entry is the state of one key; it exists while the key is held or waited for, or a place in its
// queue is kept.
type entry struct {
	key     string
	holds   []*grant           // readers, or one that excludes everybody else
	phase   core.Mode          // of the holds, or of those before if there are none
	token   int64              // of the latest hold that excluded; those who read after it carry it too
	writers queue              // all that want to exclude, whatever their mode is called
	readers queue              // they wait only for writers: for one that holds, or for one that waits
	last    int64              // the place at the end of the queue
	tickets map[string]*ticket // by their ids
	telling bool               // those who wait are about to be told where they are
}

// Acquire implements core.Locks.
func (l *Locks) Acquire(ctx context.Context, r *core.Request) (core.Grant, error) {
	l.mu.Lock()
	e := l.entry(r.Key)
	if e.admits(r.Mode) {
		g := l.grant(e, r)
		l.mu.Unlock()
		return g, nil
	}
	if err := l.refuse(e, r); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	w := l.enqueue(e, r)
	seen := core.Wait{Holders: e.holders(), Position: e.position(w), Queued: e.waiting()}
	l.mu.Unlock()

	r.Events.Contended(seen)
	return l.wait(ctx, e, w, seen.Position)
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

// admits reports whether one more of mode need not wait. If nobody holds the key nobody waits for it.
func (e *entry) admits(mode core.Mode) bool {
	return len(e.holds) == 0 || mode == core.Read && e.phase == core.Read && len(e.writers) == 0
}

// refuse returns why r may not wait, if so.
func (l *Locks) refuse(e *entry, r *core.Request) error {
	switch waiting := e.waiting(); {
	case r.Wait == 0:
		l.keep(e, r, e.placeOf(r))
		return &core.AcquireError{Err: core.ErrBusy, Holders: e.holders()}
	case r.MaxWaiters > 0 && waiting >= r.MaxWaiters:
		return &core.AcquireError{
			Err:     fmt.Errorf("%w: %d wait already", core.ErrTooManyWaiters, waiting),
			Holders: e.holders(),
		}
	}
	return nil
}

// wait returns what becomes of w, whose position is told already.
func (l *Locks) wait(ctx context.Context, e *entry, w *waiter, told int) (core.Grant, error) {
	var limit <-chan time.Time
	if w.req.Wait != core.Forever {
		timer := time.NewTimer(w.req.Wait)
		defer timer.Stop()
		limit = timer.C
	}
	for {
		select {
		case g := <-w.ready:
			return g, nil
		case seen := <-w.news:
			if seen.Position != told && len(w.ready) == 0 {
				told = seen.Position
				w.req.Events.Waiting(seen)
			}
		case <-limit:
			return nil, l.giveUp(e, w, core.ErrBusy)
		case <-ctx.Done():
			return nil, l.giveUp(e, w, fmt.Errorf("%w: %w", core.ErrBusy, ctx.Err()))
		}
	}
}

// giveUp ends the wait of w without the lock.
func (l *Locks) giveUp(e *entry, w *waiter, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case g := <-w.ready: // granted in this instant: pass it on
		l.end(g)
	default:
		e.queueOf(w.req.Mode).remove(w)
		l.keep(e, w.req, w.place)
		l.moved(e)
		l.settle(e)
	}
	return &core.AcquireError{Err: err, Holders: e.holders()}
}

// settle admits whom the state of e allows to run. After a writer all waiting readers run, after
// readers one writer; and while readers hold the key more of them may, unless a writer waits.
func (l *Locks) settle(e *entry) {
	held, reading := len(e.holds) > 0, e.phase == core.Read
	switch {
	case held && !reading:
	case len(e.readers) > 0 && (!reading || len(e.writers) == 0):
		l.admitReaders(e)
	case !held && len(e.writers) > 0:
		l.admit(e, e.writers.pop())
	case !held && len(e.tickets) == 0:
		delete(l.keys, e.key)
	}
}

func (l *Locks) admitReaders(e *entry) {
	readers := e.readers
	e.readers = nil
	for _, w := range readers {
		l.admit(e, w)
	}
}

func (l *Locks) admit(e *entry, w *waiter) {
	l.keep(e, w.req, w.place) // a call of the same ticket may follow a loss
	l.moved(e)
	w.ready <- l.grant(e, w.req)
}

// shownHolders is how many holders a call is told of at most, as on Redis.
const shownHolders = 8

// holders describes those who hold e.
func (e *entry) holders() []core.Holder {
	some := e.holds[:min(len(e.holds), shownHolders)]
	holders := make([]core.Holder, 0, len(some))
	for _, g := range some {
		holders = append(holders, core.Holder{
			Owner: g.req.Owner, Process: "local", TraceParent: g.req.Trace, Token: g.token, Since: g.since,
		})
	}
	return holders
}

// Expire loses the holds of key.
func (l *Locks) Expire(key string) {
	for _, g := range l.expire(key) {
		g.req.Events.Lost(fmt.Errorf("%w: its lease ran out", core.ErrLost))
	}
}

// expire ends the holds of key, and returns those that had not ended before.
func (l *Locks) expire(key string) (lost []*grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[key]
	if e == nil {
		return nil
	}
	for _, g := range slices.Clone(e.holds) {
		if !g.over {
			g.lost = true
			lost = append(lost, g)
		}
		l.end(g)
	}
	return lost
}
