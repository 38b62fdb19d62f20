package lockmw

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockmw/go/internal/keyed"
)

// Holds are the holds of several keys, as LockAll took them.
type Holds []*Hold

// Unlock unlocks all of them, the last one first, and joins their errors.
func (hs Holds) Unlock() error {
	var errs []error
	for _, h := range slices.Backward(hs) {
		errs = append(errs, h.Unlock())
	}
	return errors.Join(errs...)
}

// LockAll takes the locks of all keys or of none. It takes them one after the other, sorted and without
// duplicates, so that callers with overlapping keys do not wait for each other in a circle. The context
// carries all holds, and ends when any of them is lost. WithWait limits the wait for all of them together if
// it is given here; the Locker's own default is for each. Without keys LockAll returns ctx and no holds. If
// one lock cannot be taken, LockAll unlocks the others and returns an *Error.
func LockAll(ctx context.Context, l Locker, keys []string, opts ...Option) (context.Context, Holds, error) {
	policy, err := NewPolicy(opts...)
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
	limited := policy.Wait > 0 && policy.Wait != Forever
	holds, start, locked := make(Holds, 0, len(keys)), time.Now(), ctx
	for i, key := range keys {
		each := opts
		if limited && i > 0 {
			each = slices.Concat(opts, []Option{WithWait(max(0, policy.Wait-time.Since(start)))})
		}
		var hold *Hold
		locked, hold, err = l.Lock(locked, key, each...)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); ok && limited {
				e.Waited = time.Since(start)
			}
			return ctx, nil, errors.Join(err, holds.Unlock())
		}
		holds = append(holds, hold)
	}
	return locked, holds, nil
}
