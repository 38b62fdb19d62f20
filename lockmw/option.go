package lockmw

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

type everywhere = option.Everywhere // an alias, so that the documentation shows no fields

// An Option configures how a lock is taken. Every function that takes locks accepts options (Lock, Do, WithLock,
// httpmw.WithLock, asynqmw.WithLock), and so does every function that makes a Locker (New, NewLocal, fairlock.New), as
// defaults. The option nearest to the call wins. Options are values: they can be made once and reused, and used concurrently.
type Option struct {
	everywhere
	kind     optionKind
	duration time.Duration
	n        int
	text     string
	observer *Observer
	options  []Option
	record   *core.RecordClaim
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
	optRecord
)

// Forever is a value for WithWait: the call waits until its context ends.
const Forever = core.Forever

// WithWait limits how long a call waits for the lock. With 0 the call tries once, and fails with ErrBusy if the lock is held.
// Default: Forever for Lock and Do, 0 for every WithLock. Negative values are refused.
//
// A call with time to wait also waits while Redis is unreachable, starts, fails over or moves the slot. When its time has
// ended it fails with ErrUnavailable, wrapping Redis' last error. A call that only tries fails with ErrUnavailable
// immediately, or after 2 s if Redis is silent. If the wait ends before Redis has answered, the error is ErrUnavailable, not
// ErrBusy, because it is unknown whether the lock is held.
func WithWait(d time.Duration) Option { return Option{kind: optWait, duration: d} }

// WithLease sets how long a lock outlives its last renewal, from 100 ms to 24 h; default 30 s. The watchdog renews the lease
// after a third of it. So the lease does not limit the hold: it is how long other callers wait after the holder crashed. A
// hold survives an outage of Redis only if its lease is longer than the outage. Add a second, because go-redis may refuse to
// dial for that long after the server is back. A nested call shares the lease of the outer hold, and gets ErrInvalidOption
// for a different one.
func WithLease(d time.Duration) Option { return Option{kind: optLease, duration: d} }

// WithFixedLease is WithLease without the watchdog: the hold is lost after d unless Hold.Extend prolongs it. In a nested call it
// must be the lease of the outer hold, as with WithLease.
func WithFixedLease(d time.Duration) Option { return Option{kind: optFixedLease, duration: d} }

// WithMaxHold ends a hold as lost after d, even if its holder is alive, so that a hung handler does not hold a key forever.
// Default 0: no limit. Other values below 1 ms are refused. In a nested call it ends only the nested hold and its context; the
// outer hold continues.
func WithMaxHold(d time.Duration) Option { return Option{kind: optMaxHold, duration: d} }

// WithMinHold keeps the key taken until d after the lock was acquired, even if it is unlocked sooner, so that a double click
// finds the lock busy. From 0 to 24 h; default 0. In a nested call d counts from that call. There, d above 0 is
// ErrInvalidOption in a read hold without a minimum, because other readers may share that hold's lock.
func WithMinHold(d time.Duration) Option { return Option{kind: optMinHold, duration: d} }

// WithMaxWaiters limits how many calls of this process may wait for one key. A further call fails immediately with
// ErrTooManyWaiters. Default 0: no limit. Negative values are refused.
func WithMaxWaiters(n int) Option { return Option{kind: optMaxWaiters, n: n} }

// WithPlace lets a caller keep its position in the queue between attempts. It is for tasks that are put back while a key is
// busy and must not lose their turn: use the task's ID as the name. If the call ends without the lock, its place is kept under
// the name for the duration keep. The next call for the key with the same name continues from there, in this process or
// another. Until then the lock passes over the place. The place ends when a hold that was granted from it is unlocked or lost.
//
// A call that only tries (WithWait(0)) also keeps its place, but gets only a lock that is free. With an unknown or expired
// name the call starts at the end of the queue. The name identifies a place, not a holder, and does not allow re-entry.
//
// A name has 1 to 200 bytes, and keep is from 1 ms to 24 h. Default: no place. Fair locks (fairlock), semaphores and Local
// keep places. For other locks the option is ErrInvalidOption. So it is for New, httpmw.WithLock and asynqmw.WithLock, because
// all their calls would share one place.
func WithPlace(name string, keep time.Duration) Option {
	return Option{kind: optPlace, text: name, duration: keep}
}

// WithWeight sets how many permits of a semaphore (package semaphore) a call takes, all or none; default 1. It is
// ErrInvalidOption if w is less than 1 or more than the semaphore has, and for locks of other kinds. A nested call shares the
// permits of the outer hold, and gets ErrUpgrade if it needs more.
func WithWeight(w int) Option { return Option{kind: optWeight, n: w} }

// WithName sets the name of the lock in spans, metrics and log lines, at most 200 bytes. Use few different names: a route or a
// task type, not an ID. Default: the key's kind, which is the part before its first ':', or "lock" for a key without a kind.
// Only the first 100 kinds of a Client or Local have names of their own. Further kinds have the name "other", and one line is
// logged.
func WithName(name string) Option { return Option{kind: optName, text: name} }

// WithLabel states what a hold is for, such as a request id or a task id. The label is shown in the errors of callers that find
// the lock held, in the Inspector, in spans and in the lines of package locklog, but never in a metric. It is stored with the
// lock in plain text, so it must not be a secret. At most 100 bytes of printable ASCII without spaces; default "", which means
// no label. httpmw sets it to the id of chi's middleware.RequestID, asynqmw to the task's ID, and rivermw
// to the job's kind and ID.
//
// A nested call has the label of the lock that it re-enters. If goroutines of a process pass the lock on, or share it for
// reading, other processes see the label of the first of them.
func WithLabel(label string) Option { return Option{kind: optLabel, text: label} }

// WithStacks records where each lock is taken, for the log lines about a forgotten hold (see Hold) and about a call that waits
// for a hold of its own process. It costs an allocation and about a microsecond for each acquisition. Off by default. Give it to
// New, or only to the calls that you suspect.
func WithStacks() Option { return Option{kind: optStacks} }

// WithDeadlockDetection sets how long a nested wait lasts before deadlock detection runs. A nested wait is one whose context
// holds other locks, so it may be part of a cycle of calls that wait for one another. Default 1 s; 0 turns it off; other values
// are from 10 ms to 24 h. Detection then runs again every 10 s. One of the calls in a deadlock ends with ErrDeadlock. A call
// with 0 never runs detection and is never the one that ends, but the detection of other calls still takes it into account.
// See docs/deadlocks.md.
func WithDeadlockDetection(after time.Duration) Option {
	return Option{kind: optDeadlock, duration: after}
}

// WithFailOpen lets a call continue without the lock during an outage of Redis. Its Hold has Token 0, and observers receive
// Acquisition.FailedOpen. Other holders may then run at the same time, so use it only for work that is safe without the lock.
// Such a call does not wait for the end of an outage, whatever its WithWait. Off by default.
//
// A call does not fail open for mistakes of this process or its configuration, such as an exhausted connection pool, a closed
// redis client or a wrong password: it then fails with ErrUnavailable. docs/reference.md has a table of what fails open. A
// database that refuses smaller tokens also refuses 0: docs/fencing.md has a statement for both cases.
func WithFailOpen() Option { return Option{kind: optFailOpen} }

// WithObserver adds an observer. It may be given several times, as a default and for a call. All observers are called, those of
// outer defaults first. An observer that is given twice is called once.
func WithObserver(o *Observer) Option { return Option{kind: optObserver, observer: o} }

// WithDefaults applies options only where no other option sets the same thing: options of New, a wrapper or the call win over
// them. It is for authors of wrappers.
func WithDefaults(opts ...Option) Option { return Option{kind: optDefaults, options: opts} }

// JoinOptions makes one Option of several, such as a policy that requests and tasks share.
func JoinOptions(opts ...Option) Option { return Option{kind: optJoined, options: opts} }
