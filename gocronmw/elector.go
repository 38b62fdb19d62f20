package gocronmw

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// An Elector implements leader election for gocron.WithDistributedElector. Of all Electors with the same key, one leads. It is safe
// for concurrent use. Make it with Elect.
type Elector struct {
	mu     sync.Mutex
	leader context.Context // of the latest term; nil before the first term
	end    context.CancelFunc
	work   sync.WaitGroup
	err    error // of the last election, since the latest term
}

var _ gocron.Elector = (*Elector)(nil)

// Elect takes part in the election until ctx ends, Close is called, or l is shut down. The options are those that lockmw.Lead takes.
// After an error, such as a refusal by Redis, it logs a warning and takes part again. A mistake, lockmw.ErrInvalidOption or
// lockmw.ErrInvalidKey, ends the election; it is logged as an error.
func Elect(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) *Elector {
	option.NotNil(l, "gocronmw: Elect: the Locker is nil")
	ctx, end := context.WithCancel(ctx)
	e := &Elector{end: end}
	logger := observe.LoggerOf(l)
	e.work.Go(func() {
		for {
			err := lockmw.Lead(ctx, l, key, e.term, opts...)
			e.mu.Lock()
			e.err = err
			e.mu.Unlock()
			switch {
			case ctx.Err() != nil, errors.Is(err, lockmw.ErrClosed):
				return
			case errors.Is(err, lockmw.ErrInvalidOption), errors.Is(err, lockmw.ErrInvalidKey):
				logger.ErrorContext(ctx, "gocronmw: this scheduler takes no part in the election", "error", err)
				return
			}
			logger.WarnContext(ctx, "gocronmw: the election failed, and begins again", "error", err)
			if !pause.For(ctx, electAgain) {
				return
			}
		}
	})
	return e
}

// electAgain is the pause after an election that failed.
const electAgain = 5 * time.Second

// term runs while this Elector leads.
func (e *Elector) term(ctx context.Context) error {
	e.mu.Lock()
	e.leader, e.err = ctx, nil
	e.mu.Unlock()
	<-ctx.Done()
	return context.Cause(ctx)
}

// IsLeader implements gocron.Elector. It returns nil while this Elector leads, by its own clock. Otherwise it returns how
// its latest term ended, such as lockmw.ErrLost; lockmw.ErrNotHeld if it has never led; or the error of an election that failed.
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
