package lockmw

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/keyed"
)

// An Inspector shows the holders and waiters of locks in Redis, and can release a lock by force. It takes no locks itself, and
// needs neither a Client nor a Close. Package inspector makes a web page of it. Safe for concurrent use.
type Inspector struct {
	inspector *inspect.Inspector
	rdb       redis.UniversalClient
}

// NewInspector returns an Inspector for the locks of Clients with the same prefix. Only the options WithPrefix, WithSlottedKeys
// and WithQuarantine have an effect. It accepts the redis clients that New accepts, and returns the same errors. Methods that scan,
// such as All, need access to the masters of a Cluster: with a wrapped Cluster client that hides them they return
// errors.ErrUnsupported.
func NewInspector(rdb redis.UniversalClient, opts ...ClientOption) (*Inspector, error) {
	s, err := newClientSettings(opts)
	if err != nil {
		return nil, err
	}
	i, err := inspect.New(rdb, inspect.Config{Prefix: s.engine.Prefix, SlottedKeys: s.engine.SlottedKeys, Quarantine: s.engine.Quarantine})
	if err != nil {
		return nil, err
	}
	return &Inspector{i, rdb}, nil
}

// A Status is the state of one key in Redis.
type Status struct {
	Key     string
	Mode    string   // mode of the holders: exclusive, fair, read, write or permit; "" without a holder
	Holders []Holder // one, or several for read holds and permits
	// Waiters is the queue, in its order. Calls for the plain lock that wait in the holder's own process come first, as one
	// Waiter without a ticket. Each of the others is a ticket, which may stand for several calls of its process. Processes
	// report the number of their waiting calls to the server within a second.
	Waiters []Waiter

	// Kept lists the places that WithPlace keeps between two calls, in their order. The lock passes over a kept place until
	// the next call with its name. Get returns only the kept places that it is asked for: see All, Kept and KeptNames.
	Kept []KeptPlace

	// Record says whether the work of an idempotency key was done. It is nil if the key has no record in Redis: package idempotency
	// does not use the key, keeps its record in another store, or the record has expired.
	Record *Record
}

// A KeptPlace is a place in the queue that is kept until the next call with its name.
type KeptPlace struct {
	Name  string        // name of the place (WithPlace)
	Since time.Time     // when its first call was queued, by the server's clock; later if that clock was behind
	TTL   time.Duration // how much longer it is kept
}

// A Waiter is a ticket in the queue, or the calls that wait in the holder's own process.
type Waiter struct {
	Ticket   string // "" for calls in the holder's own process
	Position int    // position of the ticket in the queue, from 1; 0 without a ticket
	Process  string // host, process id and a random part
	Mode     string // exclusive, fair, read, write or permit
	Calls    int    // number of calls of the process that wait here, at least 1
	Label    string // label of the call that the ticket was made for (WithLabel)
	// Since is when the ticket was queued, by the server's clock. Without a ticket it is when the first of the calls began to
	// wait. It is then zero for the first one to two seconds.
	Since  time.Time
	Seen   time.Time // when the process last confirmed that it waits, by the server's clock; zero without a ticket
	Weight int       // number of permits of a semaphore that the call needs; 0 for a lock
}

// Waiting returns the number of calls that wait, in all processes.
func (s Status) Waiting() int {
	calls := 0
	for _, w := range s.Waiters {
		calls += w.Calls
	}
	return calls
}

// WaitingSince returns when the longest wait began, by the server's clock. It is zero if no wait is known.
func (s Status) WaitingSince() time.Time {
	var since time.Time
	for _, w := range s.Waiters {
		if !w.Since.IsZero() && (since.IsZero() || w.Since.Before(since)) {
			since = w.Since
		}
	}
	return since
}

// Get returns the status of key. It includes the kept places whose names are given in kept. The status is empty, except
// for a Record, if the key is neither held nor waited for. An error is an *Error that wraps ErrInvalidKey, ErrWrongType or
// ErrUnavailable.
func (i *Inspector) Get(ctx context.Context, key string, kept ...string) (Status, error) {
	if err := keyed.Check(key); err != nil {
		return Status{}, &Error{Op: "inspect", Key: key, Err: err}
	}
	s, err := i.made(ctx).Get(ctx, key, kept...)
	if err != nil {
		return Status{}, &Error{Op: "inspect", Key: key, Err: err}
	}
	return statusOf(s), nil
}

// Kept returns the kept places of key (WithPlace), in their order. It scans the server, with the options and limits of All,
// which takes seconds if there are many keys. An error is as for Get, or an *Error that wraps ErrInvalidOption.
func (i *Inspector) Kept(ctx context.Context, key string, opts ...ScanOption) ([]KeptPlace, error) {
	how, err := scanOf(opts)
	if err == nil {
		err = keyed.Check(key)
	}
	var names []string
	if err == nil {
		names, err = i.made(ctx).KeptFor(ctx, key, how)
	}
	if err != nil {
		return nil, &Error{Op: "inspect", Key: key, Err: err}
	}
	s, err := i.Get(ctx, key, names...)
	return s.Kept, err
}

// KeptNames returns the names of all kept places by key, to pass to Get. One scan finds the places of all keys, with the
// options and limits of All. An error is an *Error that wraps ErrInvalidOption or ErrUnavailable.
func (i *Inspector) KeptNames(ctx context.Context, opts ...ScanOption) (map[string][]string, error) {
	return scanFor(opts, func(how inspect.Scan) (map[string][]string, error) { return i.made(ctx).KeptNames(ctx, how) })
}

func statusOf(s *inspect.Status) Status {
	status := Status{Key: s.Key, Mode: s.Mode, Holders: holdersOf(s.Holders)}
	for _, w := range s.Waiters {
		status.Waiters = append(status.Waiters, Waiter(w))
	}
	for _, k := range s.Kept {
		status.Kept = append(status.Kept, KeptPlace(k))
	}
	if s.Record != nil {
		record := Record(*s.Record)
		status.Record = &record
	}
	return status
}

// Prefixes returns the prefixes (WithPrefix) under which Clients have taken locks on this server, in alphabetical order. Use
// it to find the prefix for NewInspector: an Inspector sees only locks with its own prefix. A foreign key that ends in ":fence"
// is also taken for a prefix. Prefixes scans the server with the options and limits of All. An error is an *Error that wraps
// ErrInvalidOption or ErrUnavailable.
func (i *Inspector) Prefixes(ctx context.Context, opts ...ScanOption) ([]string, error) {
	return scanFor(opts, func(how inspect.Scan) ([]string, error) { return i.made(ctx).Prefixes(ctx, how) })
}

// ForceUnlock takes the lock of key away from the holder h, as returned by Get or All, and grants it to the next waiter. The
// hold ends as lost. Its process notices that immediately if it listens for messages, which it does once one of its calls has
// waited for another process. Otherwise it notices at the next renewal or at Unlock. The holder may work until then, and
// longer. Stop it first, or make sure that its token is checked where it writes.
//
// Redis identifies the lease by the token of its first hold. If goroutines of the process have passed the lock on since then,
// the current holder among them loses it. No other lease is touched: if this one has ended, the *Error wraps ErrNotHeld.
func (i *Inspector) ForceUnlock(ctx context.Context, key string, h Holder) error {
	err := keyed.Check(key)
	if err == nil {
		err = i.made(ctx).ForceUnlock(ctx, key, core.Holder{Owner: h.Owner, Token: h.Token})
	}
	if err != nil {
		return &Error{Op: "force_unlock", Key: key, Err: err}
	}
	return nil
}
