package gocronmw

import (
	"context"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/go/lockmw"
)

// An Elector implements leader election for gocron.WithDistributedElector. Of all Electors with the same key, one leads. It is safe
// for concurrent use. Make it with Elect.
type Elector struct {
	mu     sync.Mutex
	leader context.Context // of the latest term; nil before the first term
	end    context.CancelFunc
	work   sync.WaitGroup
	err    error // of Lead
}

var _ gocron.Elector = (*Elector)(nil)

// Elect takes part in the election until ctx ends, Close is called, or l is shut down. The options are those that lockmw.Lead takes. An
// error of Lead, such as lockmw.ErrInvalidOption, is what IsLeader returns.
func Elect(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *Elector {
	ctx, end := context.WithCancel(ctx)
	e := &Elector{end: end}
	e.work.Go(func() {
		err := lockmw.Lead(ctx, l, key, e.term, opts...)
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
	})
	return e
}

// term runs while this Elector leads.
func (e *Elector) term(ctx context.Context) error {
	e.mu.Lock()
	e.leader = ctx
	e.mu.Unlock()
	<-ctx.Done()
	return context.Cause(ctx)
}

// IsLeader implements gocron.Elector. It returns nil while this Elector leads, by its own clock. Otherwise it returns how
// its latest term ended, such as lockmw.ErrLost; lockmw.ErrNotHeld if it has never led; or the error that ended the election.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
		return e.err
	case e.leader == nil:
		return lockmw.ErrNotHeld
	}
	return context.Cause(e.leader)
}

// Close resigns, and another Elector leads immediately. Shut the scheduler down before, so that its jobs have ended.
func (e *Elector) Close() {
	e.end()
	e.work.Wait()
}
