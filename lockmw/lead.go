package lockmw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

// Lead elects a leader among all who call it with the same key, and calls run in the one that is elected. It is for
// work that one of several replicas does for as long as it lives: a consumer, a scheduler, a reconciler.
//
//	err := lockmw.Lead(ctx, locks, "lead:billing", func(ctx context.Context) error {
//		return consume(ctx) // until ctx ends
//	})
//
// The leader holds the lock of key. Its run gets a context that ends when the lock is lost, when ctx ends, and at
// Client.Shutdown. At any time one leader's context at most is alive, as far as the lock promises it: work that must
// not be done twice checks the fencing token (Hold.Token, by FromContext). A run that ignores the end of its context
// goes on beside the next leader.
//
// The lock is released when run has returned: the next leader follows at once after that, and after a crash within
// the lease, which is 10 s by default. If run returns while it leads, Lead ends with its result. After a loss Lead
// drops what run returned, and competes again. It does so too when Redis is unavailable, but not for what does not pass by
// waiting, such as NOPERM or a closed redis client: then it returns an *Error that wraps ErrUnavailable. The pauses before it
// competes again grow from 100 ms to 5 s. A panic in run continues after the release.
//
// Lead waits for as long as ctx lives. It returns an *Error that wraps ErrClosed when the Client is shut down or
// closed, and also what run returned if that is an error. If ctx ends, Lead returns what run returned, or an *Error
// that wraps the context's error if it did not lead. It returns ErrInvalidOption for WithWait, WithMinHold,
// WithFixedLease and WithFailOpen: a leader waits, hands over at once, renews its lease, and is never two. Where these
// are defaults of l they have no effect on Lead. WithMaxHold ends a leader's term: it competes again.
//
// It also returns ErrInvalidOption if several could lead: for a Locker that reads, for a semaphore, also one with a single
// permit, as each process says how many there are, and for a ctx that holds the key. The Lock of a LockerFunc has to
// exclude other callers itself: Lead cannot check that.
func Lead(ctx context.Context, l Locker, key string, run func(context.Context) error, opts ...Option) error {
	if option.IsNil(l) || run == nil {
		return &Error{Op: "lead", Key: key, Err: errNilArgument}
	}
	if err := checkLead(opts); err != nil {
		return &Error{Op: "lead", Key: key, Err: err}
	}
	opts = append([]Option{WithDefaults(WithLease(10 * time.Second))}, opts...)
	e := election{locker: l, key: key, run: run, opts: append(opts, Option{kind: optLead})}
	for {
		again, err := e.term(ctx)
		if !again || ctx.Err() != nil {
			return err
		}
		e.rest(ctx, Forever)
	}
}

// checkLead refuses what a leader cannot have.
func checkLead(opts []Option) error {
	p, err := NewPolicy(opts...)
	given := decidedBy(opts)
	switch {
	case err != nil:
		return err
	case given&(1<<optWait) != 0:
		return fmt.Errorf("%w: WithWait: Lead waits for as long as its context lives", ErrInvalidOption)
	case p.MinHold > 0:
		return fmt.Errorf("%w: WithMinHold: a leader hands over at once", ErrInvalidOption)
	case p.Fixed:
		return fmt.Errorf("%w: WithFixedLease: a leader's lease is renewed", ErrInvalidOption)
	case p.FailOpen:
		return fmt.Errorf("%w: WithFailOpen: every caller of Lead would lead", ErrInvalidOption)
	}
	return nil
}

// An election is a call of Lead.
type election struct {
	locker Locker
	key    string
	run    func(context.Context) error
	opts   []Option
	backoff
}

// term waits until it leads, and calls run. It returns the result of Lead, or that it may compete again.
func (e *election) term(ctx context.Context) (again bool, err error) {
	held, hold, err := e.locker.Lock(ctx, e.key, e.opts...)
	if err != nil {
		return mayPass(err) || errors.Is(err, ErrBusy), err
	}
	if err := hold.checkLeader(); err != nil {
		_ = hold.Unlock() // nothing has run
		return errors.Is(err, ErrUnavailable), hold.fail("lead", err)
	}
	e.pause = 0
	defer func() {
		closed := context.Cause(held)
		switch lost := hold.Unlock(); {
		case errors.Is(lost, ErrLost):
			again, err = true, lossDuring(hold, lost, err)
		case core.IsLoss(lost):
			err = lossDuring(hold, lost, err)
		case errors.Is(closed, ErrClosed):
			err = lossDuring(hold, hold.fail("unlock", closed), err)
		}
	}()
	return false, e.run(held)
}

// A backoff is the pauses before further tries, each twice as long as the one before.
type backoff struct{ pause time.Duration }

const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// rest waits before the next try, or until ctx ends, and no longer than most.
func (b *backoff) rest(ctx context.Context, most time.Duration) {
	b.pause = min(max(2*b.pause, minPause), maxPause)
	timer := time.NewTimer(min(b.pause/2+rand.N(b.pause/2), most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
