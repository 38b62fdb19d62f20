package lockmw

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/option"
)

// LockAll takes the locks of all keys, or none of them. If all keys are free, it takes them together in one round trip where that
// is possible: see docs/locks.md. Otherwise it takes them one after the other, sorted and without duplicates, so that callers
// with overlapping keys cannot deadlock. Holds are in the order of their keys.
//
// The returned context carries all holds, and ends when any of them is lost. A WithWait in opts limits the wait for all keys
// together; a default of l applies to each key. If a lock cannot be taken, LockAll unlocks the others and returns an *Error.
// Without keys it returns ctx and no holds.
func LockAll(ctx context.Context, l Locker, keys []string, opts ...Option) (context.Context, Holds, error) {
	policy, err := NewPolicy(opts...)
	switch {
	case option.IsNil(l):
		err = errNilArgument
	case ctx == nil:
		err = errNilContext
	}
	if err != nil {
		return ctx, nil, &Error{Op: "lock_all", Err: err}
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, key := range keys { // before anything is locked
		if err := keyed.Check(key); err != nil {
			return ctx, nil, &Error{Op: "lock_all", Key: key, Err: err}
		}
	}
	c := allCall{locker: l, opts: opts, start: time.Now(), ctx: ctx, holds: make(Holds, 0, len(keys))}
	if policy.Wait > 0 && policy.Wait != Forever {
		c.wait = policy.Wait
	}
	if err := c.take(keys); err != nil {
		if e, ok := errors.AsType[*Error](err); ok && c.wait > 0 {
			e.Waited = time.Since(c.start)
		}
		return ctx, nil, errors.Join(err, c.holds.Unlock())
	}
	slices.SortFunc(c.holds, func(a, b *Hold) int { return strings.Compare(a.Key(), b.Key()) })
	return c.ctx, c.holds, nil
}

// An allCall is a call of LockAll.
type allCall struct {
	locker Locker
	opts   []Option
	wait   time.Duration // for all keys; 0 if each key has a wait of its own
	start  time.Time
	ctx    context.Context // carries the holds
	holds  Holds           // so far
}

func (c *allCall) take(keys []string) (err error) {
	if k := kindLockerOf(c.locker); k != nil {
		if keys, err = c.takeTogether(k, keys); err != nil {
			return err
		}
	}
	return c.takeEach(keys)
}

// takeEach takes the locks of keys one after the other.
func (c *allCall) takeEach(keys []string) error {
	for _, key := range keys {
		opts := c.opts
		if c.wait > 0 && len(c.holds) > 0 {
			opts = slices.Concat(opts, []Option{WithWait(c.waitLeft())})
		}
		if err := c.add(c.locker.Lock(c.ctx, key, opts...)); err != nil {
			return err
		}
	}
	return nil
}

// waitLeft returns what is left of the wait for all.
func (c *allCall) waitLeft() time.Duration { return max(0, c.wait-time.Since(c.start)) }

// add adds the result of a Lock to the holds.
func (c *allCall) add(ctx context.Context, h *Hold, err error) error {
	if err == nil {
		c.ctx, c.holds = ctx, append(c.holds, h)
	}
	return err
}
