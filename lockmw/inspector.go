package lockmw

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/keyed"
)

// An Inspector looks at the locks in Redis, and can take a lock away from its holder. It takes no lock itself,
// and needs no Client and no Close. Safe for concurrent use.
type Inspector struct {
	inspector *inspect.Inspector
	rdb       redis.UniversalClient
}

// NewInspector returns an Inspector for the locks of Clients with the same prefix; of the options
// only WithPrefix and WithQuarantine matter. It takes the redis clients that New takes. All, Kept and Prefixes need one that
// shows the masters of a Cluster, and return errors.ErrUnsupported otherwise.
func NewInspector(rdb redis.UniversalClient, opts ...ClientOption) (*Inspector, error) {
	s, err := newClientSettings(opts)
	if err != nil {
		return nil, err
	}
	i, err := inspect.New(rdb, s.engine.Prefix, s.engine.Quarantine)
	if err != nil {
		return nil, err
	}
	return &Inspector{i, rdb}, nil
}

// A Status is what Redis holds for one key.
type Status struct {
	Key     string
	Mode    string   // of the holders: exclusive, fair, read, write or permit; "" if nobody holds it
	Holders []Holder // one, or several readers or permits
	// Waiters is who waits, in the order of the queue. First come the calls for the plain lock that wait behind the holder
	// in its own process, if there are any: they have no ticket. The others are tickets, each of which may stand for
	// several calls of its process. Processes tell the server within a second how many calls wait.
	Waiters []Waiter

	// Kept is the places that are kept for callers who are away (WithPlace), in their order. Until they come back, the
	// lock passes over them. Get does not look for them: see All, Kept and KeptNames.
	Kept []KeptPlace
}

// A KeptPlace is a place in the queue whose caller is away.
type KeptPlace struct {
	Name  string        // WithPlace's
	Since time.Time     // when its first call was queued, by the server's clock; later if that clock was behind
	TTL   time.Duration // how long it is kept from now on
}

// A Waiter is a ticket in the queue, or the calls that wait behind the holder in its own process.
type Waiter struct {
	Ticket  string // "" if they wait in the holder's process
	Process string
	Mode    string
	Calls   int    // how many calls of its process wait there, at least 1
	Label   string // WithLabel's, of the call that the ticket was made for
	// Since is when it was queued, by the server's clock. Without a ticket it is when the first of the calls began to wait, and
	// zero while that is less than one to two seconds ago.
	Since  time.Time
	Seen   time.Time // when its process has last shown that it waits, by the server's clock; zero without a ticket
	Weight int       // how many permits of a semaphore it wants; 0: it waits for a lock
}

// Waiting returns how many calls wait, in all processes.
func (s Status) Waiting() int {
	calls := 0
	for _, w := range s.Waiters {
		calls += w.Calls
	}
	return calls
}

// Get returns the status of key, with those of its kept places that are named. It is empty if the key is neither held nor waited
// for. An error is an *Error that wraps ErrInvalidKey, ErrWrongType or ErrUnavailable.
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

// Kept returns the places that are kept for key while their callers are away, in their order. It scans the server at All's
// share of its time, which takes seconds with many keys, and takes All's options. An error is like Get's, or an *Error that wraps
// ErrInvalidOption.
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

// KeptNames returns the names of all kept places, by key, for Get. One scan finds those of all keys, at All's share of each
// server's time; it takes All's options. An error is an *Error that wraps ErrInvalidOption or ErrUnavailable.
func (i *Inspector) KeptNames(ctx context.Context, opts ...ScanOption) (map[string][]string, error) {
	return scanFor(opts, func(how inspect.Scan) (map[string][]string, error) { return i.made(ctx).KeptNames(ctx, how) })
}

func statusOf(s *inspect.Status) Status {
	status := Status{Key: s.Key, Mode: s.Mode, Holders: holdersOf(s.Holders)}
	for _, w := range s.Waiters {
		status.Waiters = append(status.Waiters, Waiter{
			Ticket: w.Ticket, Process: w.Process, Mode: w.Mode, Calls: w.Calls, Label: w.Label, Since: w.Since, Seen: w.Seen, Weight: w.Weight,
		})
	}
	for _, k := range s.Kept {
		status.Kept = append(status.Kept, KeptPlace(k))
	}
	return status
}

// Prefixes returns the prefixes (WithPrefix) under which Clients have taken locks on this server, in alphabetic
// order. An Inspector with another prefix than the locks sees none of them, and this says what to give to
// NewInspector. A foreign key that ends in ":fence" counts, too. It scans the server at All's share of its time, and takes All's
// options. An error is an *Error that wraps ErrInvalidOption or ErrUnavailable.
func (i *Inspector) Prefixes(ctx context.Context, opts ...ScanOption) ([]string, error) {
	return scanFor(opts, func(how inspect.Scan) ([]string, error) { return i.made(ctx).Prefixes(ctx, how) })
}

// ForceUnlock takes key's lock away from h, as Get or All returned it, and grants it to the next waiter. The
// hold ends as lost: at once if its process is subscribed, which it is from its first wait for another process
// on, and else at the next renewal or at Unlock. The holder may work until then and longer: make sure that it
// does not, or that its token is checked where it writes.
//
// Redis knows the lease by the token of its first hold. If goroutines of that process have passed the lock on
// since, the one that has it now loses it. No other lease is touched: if that one is over, the *Error wraps
// ErrNotHeld.
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
