package lockmw

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

type everywhere = option.Everywhere // an alias, so that the documentation shows no fields

// An Option says how a lock is taken. Lock, Do, WithLock, New, fairlock.New, rwlock.New, httpmw.WithLock and
// asynqmw.WithLock all accept it. The option nearest to the call wins. Options are values: make them once and
// reuse them, also from several goroutines.
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
	optPlace
	optLabel
	optStacks
	optLead
	optOnce
	optWeight
	optDeadlock
	optDefaults
	optJoined
)

// Forever is for WithWait: until the context ends.
const Forever = core.Forever

// WithWait limits how long a call waits for the lock. 0 tries once: ErrBusy if the lock is held. Default:
// Forever for Lock and Do, 0 for every WithLock. Negative values are refused. A call with time to wait also waits
// for a Redis that is away, starts, fails over or moves the slot, and fails with ErrUnavailable and Redis' last words
// when the time is over. A call that only tries is told at once; if Redis says nothing, it waits for 2 s at most. A call that
// waits for less time than Redis takes to answer fails with ErrUnavailable, not ErrBusy: it does not know yet whether the
// lock is held.
func WithWait(d time.Duration) Option { return Option{kind: optWait, duration: d} }

// WithLease sets how long a lock outlives its holder's last sign of life, from 100 ms to 24 h; default 30 s.
// The watchdog renews the lease every third of that. So it is no limit of the hold, but the time that others
// wait after a crash. A lease must also outlast the outages that a hold is to survive: go-redis alone may
// refuse to dial for a second after the server is back. A nested call shares the lease of the outer hold: with
// another lease of its own it is ErrInvalidOption.
func WithLease(d time.Duration) Option { return Option{kind: optLease, duration: d} }

// WithFixedLease is WithLease without the watchdog: the hold is lost after d unless extended. In a nested call
// it must be that of the outer hold, as with WithLease.
func WithFixedLease(d time.Duration) Option { return Option{kind: optFixedLease, duration: d} }

// WithMaxHold ends a hold as lost after d, even if its holder is alive, so that a hung handler does not hold
// a key for ever. Default 0: no limit. Other values under 1 ms are refused. Of a nested call it ends only the
// nested hold and its context; the outer hold goes on.
func WithMaxHold(d time.Duration) Option { return Option{kind: optMaxHold, duration: d} }

// WithMinHold keeps the key taken until d after it was acquired, even if it is unlocked sooner. A double
// click then meets a busy lock. At most 24 h; default 0. A nested call counts from its own time, and with d
// above 0 it is ErrInvalidOption in a read hold that has no minimum, because others may share that.
func WithMinHold(d time.Duration) Option { return Option{kind: optMinHold, duration: d} }

// WithMaxWaiters limits how many calls of this process may wait for one key. The next call fails with
// ErrTooManyWaiters at once. Default 0: no limit.
func WithMaxWaiters(n int) Option { return Option{kind: optMaxWaiters, n: n} }

// WithPlace keeps a call's place in the queue of a lock that is first come, first served. If the call ends without the lock, its place is
// kept for that long under the name, and the next call for the key with the same name continues from there,
// in this process or another. Meanwhile the lock passes over it. The place ends when a hold that came of it
// is unlocked or lost. It is for tasks that are put back while a key is busy and must not lose their turn: the name
// is the task's ID. It identifies a place, not a holder: it does not allow re-entry.
//
// A call that only tries (WithWait(0)) keeps its place too, but gets only a lock that is free. With an
// unknown or expired name the call starts at the end of the queue. A name has 1 to 200 bytes, and is
// kept for 1 ms to 24 h. Default: no place. Semaphores and Local keep places, too. It is ErrInvalidOption for other locks, and for New,
// httpmw.WithLock and asynqmw.WithLock, whose calls would all share one place.
func WithPlace(name string, keep time.Duration) Option {
	return Option{kind: optPlace, text: name, duration: keep}
}

// WithWeight sets how many permits of a semaphore (package semaphore) a call takes, all or none; default 1. It is
// ErrInvalidOption for less, for more than the semaphore has, and for locks of other kinds. A nested call
// shares the permits of the outer hold, and gets ErrUpgrade if it wants more.
func WithWeight(w int) Option { return Option{kind: optWeight, n: w} }

// WithName sets the name under which spans, metrics and log lines show the lock. It should have few different values: a
// route or a task type, not an ID. Default: the key's kind, which is the part before its first ':'. A key without one has
// the name "lock". The first 100 kinds of a Client or Local have names of their own; the others have the name "other", and one
// line is logged.
func WithName(name string) Option { return Option{kind: optName, text: name} }

// WithLabel says what a hold is for: a request id, a task id. Others who meet the lock see the label in their
// errors, and it is in the Inspector, in spans and in the lines of package locklog, but never in a metric. It is
// stored with the lock, as it is: it must not be a secret. At most 100 bytes, printable ASCII without spaces;
// default "", which is none. httpmw sets it to the id of chi's middleware.RequestID, and asynqmw to the task's.
//
// A nested call has the label of the lock that it re-enters. If goroutines of a process pass the lock on, or share
// it for reading, other processes see the label of the first of them.
func WithLabel(label string) Option { return Option{kind: optLabel, text: label} }

// WithStacks notes where each lock is taken, for the lines that are logged about a hold that was forgotten (see
// Hold), and about one that a call of its own process waits for. It costs an allocation and about a microsecond for
// each acquisition. Off by default. It is for New, or for what is suspected.
func WithStacks() Option { return Option{kind: optStacks} }

// WithDeadlockDetection sets after how long a wait is looked at whose context has other locks: it may be that their
// holders wait for one another in a circle. Default 1 s; 0 switches it off; other values are from 10 ms to 24 h. The wait is looked at
// again every 10 s. Of the calls in a deadlock, one ends with ErrDeadlock. A call that switched it off is never that one, and
// does not look; others learn from it what they need. See docs/deadlocks.md.
func WithDeadlockDetection(after time.Duration) Option {
	return Option{kind: optDeadlock, duration: after}
}

// WithFailOpen lets a call continue without a lock during an outage of Redis: its Hold has Token 0, and the
// observers see Acquisition.FailedOpen. Other holders may run at the same time then, so it is only for work
// that is safe without the lock. Such a call does not wait for the end of an outage, whatever WithWait says. It does not open
// for mistakes of this process or its configuration, such as an exhausted pool of connections, a closed redis client or a wrong
// password: it then fails with ErrUnavailable. docs/reference.md has a table of what opens. A store that
// refuses smaller tokens refuses 0: docs/fencing.md has a statement for both. Off by default.
func WithFailOpen() Option { return Option{kind: optFailOpen} }

// WithObserver adds an observer. It may be given more than once, and at several places. All observers are
// called, the outermost first. An observer given twice is called once.
func WithObserver(o *Observer) Option { return Option{kind: optObserver, observer: o} }

// WithDefaults applies options only where nothing else sets the same thing: options given to New, a wrapper or
// the call win over these. It is for wrappers.
func WithDefaults(opts ...Option) Option { return Option{kind: optDefaults, options: opts} }

// JoinOptions makes one value of several options: a policy to share between requests and tasks.
func JoinOptions(opts ...Option) Option { return Option{kind: optJoined, options: opts} }
