package idempotency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// records keeps the records of a Runner, and knows how their writes go together with the lock of the key.
type records interface {
	// lock takes the lock of a claim's key. rec is what is known of the record by then, if it was read: it was opened for the
	// claim, or it decides what the call gets, and then hold is nil.
	lock(ctx context.Context, c *claim) (held context.Context, hold *lockmw.Hold, rec *Record, err error)
	// begin opens the record under the lock, as Store.Begin does. If it fails, call void.
	begin(held context.Context, hold *lockmw.Hold, c *claim) (Record, error)
	// void makes a run void whose begin has failed with err, and then releases the lock: until then the record looks like that of
	// a run with an unknown outcome.
	void(held context.Context, hold *lockmw.Hold, c *claim, err error)
	// finish ends a run as Store.End does, and releases its lock in any case.
	finish(run *Run, e End) (bool, error)
	// End ends a run whose lock someone else has, or the caller.
	End(ctx context.Context, e End) (bool, error)
}

// storeRecords are the records in a Store.
type storeRecords struct {
	Store
	locker  lockmw.Locker
	options []lockmw.Option
}

func (s *storeRecords) lock(ctx context.Context, c *claim) (context.Context, *lockmw.Hold, *Record, error) {
	rec, err := s.Look(ctx, c.Key)
	if err != nil {
		return nil, nil, nil, beginError(ctx, err)
	}
	if c.isSettled(&rec) {
		return nil, nil, &rec, nil
	}
	held, hold, err := s.locker.Lock(ctx, c.Key, slices.Concat(s.options, c.lock)...)
	return held, hold, nil, err
}

func (s *storeRecords) begin(held context.Context, hold *lockmw.Hold, c *claim) (Record, error) {
	c.Token = hold.Token()
	if c.Token == 0 {
		return Record{}, fmt.Errorf("%w: the Locker continued without a lock", lockmw.ErrUnavailable)
	}
	return s.Begin(held, c.Claim)
}

func (s *storeRecords) finish(run *Run, e End) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run.ctx), endTimeout)
	defer cancel()
	defer func() { _ = run.hold.Unlock() }() // also if the Store panics; a failed release only delays the next call
	return s.End(ctx, e)
}

// endTimeout bounds how long the end of a run waits for the store.
const endTimeout = 5 * time.Second

// voidFor bounds how long the void of a run is tried again. A Begin that is still under way by then fails for want of the lock.
const voidFor = time.Minute

// void does its work in the background. It releases the lock after the first try, and continues to try.
func (s *storeRecords) void(held context.Context, hold *lockmw.Hold, c *claim, err error) {
	if c.Token == 0 || errors.Is(err, ErrSuperseded) || errors.Is(err, ErrInFlight) { // it did not begin
		_ = hold.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(held), voidFor)
	try := func() bool {
		once, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		return s.Void(once, c.Key, c.Run) == nil
	}
	go func() {
		defer cancel()
		done := try()
		_ = hold.Unlock()
		for rest := 50 * time.Millisecond; !done && pause.For(ctx, rest); rest = min(2*rest, 2*time.Second) {
			done = try()
		}
	}()
}
