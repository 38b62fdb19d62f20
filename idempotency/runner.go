package idempotency

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Runner runs the work of each key once. Make it with New. Safe for concurrent use.
type Runner struct {
	config
	locker   lockmw.Locker
	records  records
	reporter reporter
}

// New returns a Runner whose runs take their locks from l: a *lockmw.Client, a *lockmw.Local, or another exclusive Locker of this
// module. Records of a Client are in its Redis, and records of a Local in its process; any other Locker needs WithStore.
//
// New panics with an error that wraps lockmw.ErrInvalidOption if l is nil or an option is invalid, and with one that wraps
// errors.ErrUnsupported if l cannot be used: a semaphore, a Locker for reading, or a Local with WithStore, whose locks do not
// exclude other processes.
func New(l lockmw.Locker, opts ...Option) *Runner {
	r, err := newRunner(l, opts)
	if err != nil {
		panic(fmt.Errorf("idempotency.New: %w", err))
	}
	return r
}

func newRunner(l lockmw.Locker, opts []Option) (*Runner, error) {
	if option.IsNil(l) {
		return nil, fmt.Errorf("%w: the Locker is nil", lockmw.ErrInvalidOption)
	}
	r := &Runner{locker: l, config: config{ttl: 24 * time.Hour, wait: 5 * time.Second, maxHold: 5 * time.Minute, maxBody: 64 << 10}}
	option.Apply(&r.config, "idempotency.New", opts)
	if err := checkLock(r.lock); err != nil {
		return nil, err
	}
	p, err := lockmw.NewPolicy(r.lock...)
	if known, ok := kinds.PolicyOf(l, r.lock...); ok {
		p = known
	}
	if err == nil {
		err = r.check(p.Lease)
	}
	// These replace defaults of the Locker that contradict a Runner.
	r.lock = append(r.lock, lockmw.WithLease(p.Lease), lockmw.WithMinHold(0), lockmw.WithMaxHold(r.maxHold), lockmw.WithWait(r.wait))
	if err == nil {
		err = lockmw.CheckOptions(l, r.lock...)
	}
	if err == nil {
		r.records, err = r.recordsOf(l)
	}
	if err == nil {
		r.reporter, err = newReporter(l, r.lock)
	}
	return r, err
}

// recordsOf returns the records for the locks of l.
func (r *Runner) recordsOf(l lockmw.Locker) (records, error) {
	var kind core.Kind
	var locks core.Locks
	k, known := kinds.Of(l)
	if known {
		kind, locks = k.Kind(), k.Locks()
	}
	local, isLocal := locks.(*inproc.Locks)
	redis, isRedis := locks.(core.RecordLocks)
	switch {
	case kind.Mode == core.Read || kind.Permits > 0:
		return nil, fmt.Errorf("the locks of a %T may have several holders: %w", l, errors.ErrUnsupported)
	case isLocal && r.store != nil:
		return nil, fmt.Errorf("a Local excludes no other process, and WithStore is shared with others: %w", errors.ErrUnsupported)
	case isLocal:
		return &storeRecords{memoryOf(local), l, r.lock}, nil
	case r.store != nil:
		return &storeRecords{r.store, l, r.lock}, nil
	case isRedis:
		return &redisRecords{l, k, redis, r.lock}, nil
	}
	return nil, fmt.Errorf("a %T needs WithStore: %w", l, errors.ErrUnsupported)
}
