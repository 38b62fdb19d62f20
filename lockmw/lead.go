package lockmw

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/internal/pause"
)

// Lead elects a leader among all callers with the same key, and calls run in the elected one. It is for work that one of
// several replicas does for as long as it lives: a consumer, a scheduler, a reconciler.
//
//	err := lockmw.Lead(ctx, locks, "lead:billing", func(ctx context.Context) error {
//		return consume(ctx) // until ctx ends
//	})
//
// The leader holds the lock of key. run gets a context that ends when the lock is lost, when ctx ends, and at
// Client.Shutdown. At most one leader's context is alive at a time, as far as the lock guarantees that. Work that must not
// be done twice checks the fencing token (Hold.Token of FromContext). A run that ignores the end of its context overlaps
// with the next leader.
//
// The lock is released when run has returned, and the next leader follows immediately. After a crash it follows within the
// lease, which is 10 s by default. If run returns while it leads, Lead returns its result. If the lock is lost, Lead discards
// the result of run and rejoins the election. It also rejoins while Redis is unavailable, after pauses that grow from 100 ms
// to 5 s. A failure that waiting does not cure, such as NOPERM or a closed redis client, ends Lead with an *Error that wraps
// ErrUnavailable. A panic in run continues after the release.
//
// Lead waits until ctx ends. It then returns the result of run, or an *Error that wraps the context's error if it did not
// lead. When the Client is shut down or closed, it returns an *Error that wraps ErrClosed and the error of run, if any.
//
// Lead returns ErrInvalidOption for WithWait, WithMinHold, WithFixedLease and WithFailOpen: a leader waits, hands over
// immediately, renews its lease, and is never one of two. If these are defaults of l, Lead ignores them. WithMaxHold ends a
// leader's term, and Lead rejoins the election.
//
// It also returns ErrInvalidOption if there could be several leaders: for a Locker of read locks, for a semaphore, and for a
// ctx that holds the key. A semaphore with a single permit is no exception, because another process may allow more. Lead
// cannot check a LockerFunc: its Lock must exclude other callers itself.
func Lead(ctx context.Context, l Locker, key string, run func(context.Context) error, opts ...Option) error {
	if option.IsNil(l) || run == nil {
		return &Error{Op: "lead", Key: key, Err: errNilArgument}
	}
	if err := refuse(opts, whyNoLeader); err != nil {
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

// whyNoLeader says why a leader cannot have an option.
var whyNoLeader = map[string]string{
	"WithWait":       "Lead waits for as long as its context lives",
	"WithMinHold":    "a leader hands over immediately",
	"WithFixedLease": "a leader's lease is renewed",
	"WithFailOpen":   "every caller of Lead would lead",
}

// refuse returns an error for an invalid option, and for one that has a reason why it cannot be given.
func refuse(opts []Option, why map[string]string) error {
	p, err := NewPolicy(opts...)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		name  string
		given bool
	}{
		{"WithWait", decidedBy(opts)&(1<<optWait) != 0}, {"WithMinHold", p.MinHold > 0}, {"WithMaxHold", p.MaxHold > 0},
		{"WithFixedLease", p.Fixed}, {"WithFailOpen", p.FailOpen}, {"WithPlace", p.Place != ""},
	} {
		if reason := why[o.name]; o.given && reason != "" {
			return fmt.Errorf("%w: %s: %s", ErrInvalidOption, o.name, reason)
		}
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

// term waits until it leads, and calls run. It returns the result of Lead, and whether Lead may rejoin the election.
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

// A backoff pauses between tries, each time twice as long as before.
type backoff struct{ pause time.Duration }

const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// rest pauses before the next try, for at most most, or until ctx ends.
func (b *backoff) rest(ctx context.Context, most time.Duration) {
	b.pause = min(max(2*b.pause, minPause), maxPause)
	pause.For(ctx, min(b.pause/2+rand.N(b.pause/2), most))
}
