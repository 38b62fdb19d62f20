package gocronlock

import (
	"context"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/go/lockmw"
)

// An Elector is one for gocron.WithDistributedElector: of all that call Elect with the same key, one leads.
type Elector struct {
	mu     sync.Mutex
	leads  bool
	leader context.Context // of the term, while it leads
	end    context.CancelFunc
	done   chan struct{}
	err    error // of Lead
}

var _ gocron.Elector = (*Elector)(nil)

// Elect stands for election until ctx ends, Close is called, or l is shut down. The options are those of lockmw.Lead.
func Elect(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *Elector {
	ctx, end := context.WithCancel(ctx)
	e := &Elector{end: end, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		err := lockmw.Lead(ctx, l, key, e.term, opts...)
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
	}()
	return e
}

// term is the time in which this one leads.
func (e *Elector) term(ctx context.Context) error {
	e.set(ctx, true)
	defer e.set(ctx, false)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (e *Elector) set(leader context.Context, leads bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads, e.leader = leads, leader
}

// IsLeader implements gocron.Elector. It returns nil while this one leads, by its own clock; else lockmw.ErrNotHeld,
// lockmw.ErrLost, or what has ended the election.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.leads:
		return context.Cause(e.leader) // nil, or how the lock was lost
	case e.err != nil:
		return e.err
	}
	return lockmw.ErrNotHeld
}

// Close resigns: another one leads at once. Shut the scheduler down before, so that none of its jobs runs on.
func (e *Elector) Close() {
	e.end()
	<-e.done
}
