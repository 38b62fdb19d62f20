package lockmw

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

type everywhere = option.Everywhere // an alias, so that the documentation shows no fields

// An Option says how a lock is taken. Lock, Do, WithLock, New, fairlock.New, rwlock.New,
// httpmw.WithLock and asynqmw.WithLock all accept it; the one nearest to the call wins. Options are
// values: make them once and reuse them, also from several goroutines.
type Option struct {
	everywhere
	kind     optionKind
	duration time.Duration
	n        int
	text     string
	observer *Observer
	options  []Option
}

type optionKind uint8

const (
	optNone optionKind = iota
	optWait
	optLease
	optFixedLease
	optMaxHold
	optMinHold
	optMaxWaiters
	optName
	optFailOpen
	optObserver
	optTicket
	optDefaults
	optJoined
)

// Forever is for WithWait: until the context ends.
const Forever = core.Forever

// WithWait limits how long a call waits for others. 0 tries once: ErrBusy if somebody has the lock.
// Default: Forever for Lock and Do, 0 for every WithLock. Negative values are refused. A call that does
// not wait for others still waits for Redis, for 2 s at most, and one that waits for less time than
// Redis takes to answer fails with ErrUnavailable, not ErrBusy.
func WithWait(d time.Duration) Option { return Option{kind: optWait, duration: d} }

// WithLease sets how long a lock outlives its holder's last sign of life, from 100 ms to 24 h;
// default 30 s. The watchdog renews it every third of that, so this is not a limit of the hold, but
// the time others wait after a crash. A lease must also outlast the outages that a hold is to survive;
// go-redis alone may go on refusing to dial for a second after the server is back.
func WithLease(d time.Duration) Option { return Option{kind: optLease, duration: d} }

// WithFixedLease is WithLease without the watchdog: the hold is lost after d unless extended.
func WithFixedLease(d time.Duration) Option { return Option{kind: optFixedLease, duration: d} }

// WithMaxHold ends a hold as lost after d, however alive its holder is, so that a hung handler does
// not own a key for ever. Default 0: no limit. Others under 1 ms are refused.
func WithMaxHold(d time.Duration) Option { return Option{kind: optMaxHold, duration: d} }

// WithMinHold keeps the key taken until d after it was acquired, even if it is unlocked sooner, so
// that a double click meets a busy lock. At most 24 h. Default 0.
func WithMinHold(d time.Duration) Option { return Option{kind: optMinHold, duration: d} }

// WithMaxWaiters limits how many calls of this process may wait for one key; the next one fails with
// ErrTooManyWaiters at once. Default 0: no limit.
func WithMaxWaiters(n int) Option { return Option{kind: optMaxWaiters, n: n} }

// WithTicket keeps a call's place in the queue of a fair lock: if the call ends without the lock, its
// place is kept for that long, and the next call for the key with the same id continues from there, in
// this process or another. Meanwhile the lock passes over it. The place is given up when a hold that
// came of it is unlocked. For tasks that are put back while a key is busy and must not lose their turn:
// the id is that of the task. It says nothing of who holds the lock, and does not re-enter it.
//
// A place is of use to a call that waits: one that only tries (WithWait(0)) keeps its place, but gets only
// a lock that is free. An id that is not known for the key, or not any more, begins at the end of the
// queue. From 1 to 200 bytes, for 1 ms to 24 h. Off by default; ErrInvalidOption if the lock is not fair,
// and from New and asynqmw.WithLock, whose calls would all share one place.
func WithTicket(id string, keep time.Duration) Option {
	return Option{kind: optTicket, text: id, duration: keep}
}

// WithName sets the low-cardinality name under which spans and metrics show the lock: a route, a
// task type. Default: the key's kind, which is the part before its first ':'.
func WithName(policy string) Option { return Option{kind: optName, text: policy} }

// WithFailOpen lets a call go on without a lock when Redis is unavailable: its Hold has Token 0, and
// the observers see Grant.FailedOpen. Exclusion is not guaranteed then: only for work that is safe
// without.
func WithFailOpen() Option { return Option{kind: optFailOpen} }

// WithObserver adds an observer. It may be given more than once, and at several places: all are called,
// the outermost first, the same one once.
func WithObserver(o *Observer) Option { return Option{kind: optObserver, observer: o} }

// WithDefaults applies options only where nothing else sets the same thing, not even New. It is for
// those who write wrappers.
func WithDefaults(opts ...Option) Option { return Option{kind: optDefaults, options: opts} }

// JoinOptions makes one value of several options: a policy to share between requests and tasks.
func JoinOptions(opts ...Option) Option { return Option{kind: optJoined, options: opts} }
