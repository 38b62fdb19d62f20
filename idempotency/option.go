package idempotency

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures a Runner.
type Option func(*config)

type config struct {
	store   Store
	ttl     time.Duration
	wait    time.Duration
	maxHold time.Duration
	maxBody int
	sealer  *Sealer
	keyTime func(Key) (time.Time, bool)
	lock    []lockmw.Option
}

// WithStore keeps the records in a Store, such as one of package idempotency/sqlstore.
func WithStore(s Store) Option {
	option.NotNil(s, "idempotency.WithStore: the Store is nil")
	return func(c *config) { c.store = s }
}

// WithTTL sets how long a record is kept, counted from the begin of its run and again from the recording of its answer. It must be
// at least 1 s, and longer than the maximum hold and two leases together. Default: 24 h.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithWait sets how long a repetition waits for the first run, before it gets ErrInFlight. 0: it does not wait. Default: 5 s.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithMaxHold sets how long a run may take. Then its context ends with cause lockmw.ErrLost. A result that it returns
// afterwards is an unknown outcome, unless it is a success. Default: 5 min.
func WithMaxHold(d time.Duration) Option { return func(c *config) { c.maxHold = d } }

// WithMaxBody sets the greatest size, in bytes, of the body of an answer that is kept. Of a larger one the record keeps everything
// else: see ErrDone. 0 keeps no bodies. Default: 64 KiB.
func WithMaxBody(bytes int) Option { return func(c *config) { c.maxBody = bytes } }

// WithSealer encrypts answers before they are stored, and decrypts them. Status, size and times stay readable.
func WithSealer(s Sealer) Option {
	if s.Seal == nil || s.Open == nil {
		panic("idempotency.WithSealer: a function is nil")
	}
	return func(c *config) { c.sealer = &s }
}

// WithKeyTime refuses keys that are older than the TTL, whose record may be gone: they get ErrKeyExpired. f returns when the key
// was made, for example from a UUIDv7, and false if that is unknown. Default: the age of a key is not checked.
func WithKeyTime(f func(Key) (made time.Time, known bool)) Option {
	option.NotNil(f, "idempotency.WithKeyTime: the function is nil")
	return func(c *config) { c.keyTime = f }
}

// WithLockOptions adds options for the lock of each run, such as lockmw.WithLease or lockmw.WithObserver. The
// options WithWait and WithMaxHold of lockmw have no effect here: use the options of this package. Options that contradict a Runner are invalid: lockmw.WithFailOpen,
// lockmw.WithMinHold, lockmw.WithFixedLease, lockmw.WithPlace and lockmw.WithWeight.
func WithLockOptions(opts ...lockmw.Option) Option {
	return func(c *config) { c.lock = append(c.lock, opts...) }
}

// check returns an error for a setting that no Runner can have, given the lease of its locks.
func (c *config) check(lease time.Duration) error {
	switch least := c.maxHold + 2*lease; {
	case c.ttl < time.Second || c.ttl < least:
		return fmt.Errorf("%w: WithTTL(%v), must be at least 1s, and at least %v, the maximum hold and two leases", lockmw.ErrInvalidOption, c.ttl, least)
	case c.wait < 0:
		return fmt.Errorf("%w: WithWait(%v): negative", lockmw.ErrInvalidOption, c.wait)
	case c.maxHold < time.Millisecond:
		return fmt.Errorf("%w: WithMaxHold(%v), must be at least 1ms", lockmw.ErrInvalidOption, c.maxHold)
	case c.maxBody < 0:
		return fmt.Errorf("%w: WithMaxBody(%d): negative", lockmw.ErrInvalidOption, c.maxBody)
	}
	return nil
}

// checkLock returns an error for a lock option that contradicts a Runner.
func checkLock(opts []lockmw.Option) error {
	p, err := lockmw.NewPolicy(opts...)
	name := ""
	switch {
	case err != nil:
		return err
	case p.FailOpen:
		name = "WithFailOpen"
	case p.MinHold > 0:
		name = "WithMinHold"
	case p.Fixed:
		name = "WithFixedLease"
	case p.Place != "":
		name = "WithPlace"
	case p.Weight > 0:
		name = "WithWeight"
	default:
		return nil
	}
	return fmt.Errorf("%w: lockmw.%s: the work of a key needs a lock that is exclusive and renewed", lockmw.ErrInvalidOption, name)
}
