package lockmw

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/internal/transport"
)

// A ClientOption configures a Client: it is any Option, or one of the options that concern a Client as a whole.
type ClientOption interface{ option.Client }

type clientOption struct {
	option.ForClient
	apply func(*settings) error
}

// settings is the sum of the options of New, NewInspector or NewLocal.
type settings struct {
	engine engine.Config
	policy Policy
	logger *slog.Logger // WithLogger's; nil if there is none
}

func newSettings(opts []ClientOption) (settings, error) {
	s := settings{engine: engine.DefaultConfig()}
	s.policy, _ = NewPolicy()
	var defaults []Option
	for _, o := range opts {
		var err error
		switch o := o.(type) {
		case Option:
			defaults = append(defaults, o)
		case clientOption:
			err = o.apply(&s)
		default:
			err = fmt.Errorf("%w: a nil ClientOption", ErrInvalidOption)
		}
		if err != nil {
			return s, err
		}
	}
	if err := s.policy.apply(defaults); err != nil {
		return s, err
	}
	return s, nil
}

// newClientSettings is newSettings for a Client or an Inspector. It refuses WithPlace, because all calls would share the place.
func newClientSettings(opts []ClientOption) (settings, error) {
	s, err := newSettings(opts)
	if err == nil && s.policy.Place != "" {
		err = fmt.Errorf("%w: WithPlace is for a single call: all calls would share the place %q", ErrInvalidOption, shorten(s.policy.Place))
	}
	return s, err
}

// WithPrefix sets the prefix of everything that the Client keeps in Redis; default "lockmw". Clients with different
// prefixes do not see each other's locks. A prefix has 1 to 100 bytes of printable ASCII without spaces and braces.
func WithPrefix(prefix string) ClientOption {
	return clientOption{apply: func(s *settings) error {
		bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' }
		if prefix == "" || len(prefix) > 100 || strings.IndexFunc(prefix, bad) >= 0 {
			return fmt.Errorf("%w: WithPrefix(%q): must be 1 to 100 printable characters without spaces and braces", ErrInvalidOption, shorten(prefix))
		}
		s.engine.Prefix = prefix
		return nil
	}}
}

// WithSlottedKeys keeps all keys of a lock in one hash slot, as in a Cluster. It is for a plain client whose address belongs to a
// proxy in front of several servers, such as Redis Enterprise, or a managed Redis with one endpoint and several shards. Without it
// such a proxy refuses each script with CROSSSLOT, because all locks share one fencing counter. Default: one counter for all locks.
// A Cluster client does not need the option, and ignores it.
//
// With the option each slot has its own fencing counter, and its own record of the processes that wait. So tokens of different
// keys cannot be compared; tokens of one key rise as before. A process subscribes to one plain channel for each slot in which it
// waits. Through a proxy without publish/subscribe, waiting calls ask once in 750 ms.
//
// All Clients and Inspectors that share keys must have the option, or none. If only some have it, locks still exclude each other,
// but waiting calls may lose their places after 4 s, and tokens rise only as long as the server's clock is not set back. The command
// `lockmw doctor` finds this.
//
// New refuses the option together with WithQuarantine or WithReplicas, because a proxy does not show which server has a key.
// Package redlock refuses Clients with the option.
func WithSlottedKeys() ClientOption {
	return clientOption{apply: func(s *settings) error {
		s.engine.SlottedKeys = true
		return nil
	}}
}

// bounded returns an option whose value must be from least to most, which bounds says in words. set sets it.
func bounded[T int | time.Duration](name string, value, least, most T, bounds string, set func(*settings)) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if value < least || value > most {
			return fmt.Errorf("%w: %s(%v), must be from %s", ErrInvalidOption, name, value, bounds)
		}
		set(s)
		return nil
	}}
}

// WithLocalPasses limits how often a lock may be passed on within this process while another process waits for it;
// default 32, from 0 to 10000. A higher limit is faster under contention, a lower one is fairer between processes. With 0
// every release hands the lock to the next process.
func WithLocalPasses(n int) ClientOption {
	return bounded("WithLocalPasses", n, 0, 10_000, "0 to 10000", func(s *settings) { s.engine.LocalPasses = n })
}

// WithReplicas makes a grant, a renewal or an Extend count only once at least n replicas have acknowledged it. If the master
// then fails and one of those replicas replaces it, the key does not get a second holder. This is guaranteed only if n
// equals the master's replica count, and as far as the clocks of the replicas agree: a replica whose clock is ahead ends
// leases early. n is from 1 to 100. The timeout is from 1 ms to half the redis client's ReadTimeout, whose default is 5 s.
// Default: the server's own answer is enough.
//
// The same applies to Once: a tick has begun, and has run, only once n replicas have recorded it. Otherwise Once returns an
// error.
//
// A grant and a renewal take one more round trip, to the replicas: WAIT follows the script on the same connection. If fewer
// than n replicas acknowledge within the timeout, a call retries for as long as it may wait, and then fails with
// ErrUnavailable. A renewal counts as failed. Redis checks the timeout only about ten times a second. Unlock and passes
// within this process do not wait for replicas, so a fail-over after Unlock may cut a WithMinHold short or lose a kept place.
//
// In a Cluster n counts the replicas of the key's own master. If a slot moves to another master, its holds are renewed
// immediately. They end after 1 s if the replicas there do not acknowledge: Hold.Deadline becomes earlier. While the move is
// under way, and on servers older than Redis 7, this happens only at the next renewal: docs/topologies.md describes the gap.
//
// If the server does not know WAIT, or the user may not send it, each call fails with ErrUnavailable immediately. All
// clients that share keys should have the option. It does not protect against two masters at the same time: for that, also
// set min-replicas-to-write 1 and min-replicas-max-lag 1 on the server.
func WithReplicas(n int, timeout time.Duration) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if n < 1 || n > 100 || timeout < time.Millisecond {
			return fmt.Errorf("%w: WithReplicas(%d, %v), must be from 1 to 100 replicas, and at least 1ms", ErrInvalidOption, n, timeout)
		}
		s.engine.Replicas = transport.Replicas{Count: n, Timeout: timeout}
		return nil
	}}
}

// WithQuarantine stops a server that may have lost locks from granting any for d. By then every lock that was granted before
// has expired, including the lost ones. The quarantine applies to a server that was restarted, that replaces another one, or
// that the Client has not seen before and that has been running for less than d. d is from 4 s to 24 h. Default: no
// quarantine. A lock that a server has lost may then have a second holder before the deadline of the first one.
//
// During the quarantine calls wait. Calls that only try fail with ErrUnavailable, which says how long it still lasts. Holds
// that the server still has are renewed and released as usual.
//
// d must be longer than every lease, minimum hold and Extend, and longer than twice the Within of each Tick. A call, a
// wrapper or New that exceeds it gets ErrInvalidOption, which names both values. Add the time for which a replaced master
// may continue to serve: min-replicas-max-lag or cluster-node-timeout.
//
// All clients that share keys, and their Inspectors, must have the same quarantine. Otherwise it guarantees nothing. A
// client with a shorter quarantine than another client is refused when it first uses a server.
//
// Each lock costs a few microseconds more on the server. The server must allow INFO and should allow CONFIG GET. A planned
// fail-over and a new server also refuse locks for d. So does a server with replicas that no client with a quarantine has
// seen for 30 days.
//
// Servers whose replication id does not show whether they have lost locks are refused at the first lock: Dragonfly, and a server
// without an id or with an id of zeros, such as Garnet.
//
// A quarantine does not protect against:
//   - FLUSHALL and DEBUG RELOAD NOSAVE
//   - a virtual machine that is rolled back
//   - slots of a Cluster that are assigned to a running master without their data
//   - a server clock that steps forward within d after the start of the server
//   - two masters at the same time
func WithQuarantine(d time.Duration) ClientOption {
	return bounded("WithQuarantine", d, 4*time.Second, 24*time.Hour, "4s to 24h", func(s *settings) { s.engine.Quarantine = d })
}

// WithUnlockTimeout limits how long Unlock waits for the server; default 2 s, from 1 ms to 1 min.
func WithUnlockTimeout(d time.Duration) ClientOption {
	return bounded("WithUnlockTimeout", d, time.Millisecond, time.Minute, "1ms to 1m", func(s *settings) { s.engine.UnlockTimeout = d })
}

// WithClockMargin sets how much earlier a hold ends here than on the server, because clocks run at different speeds.
// Default: 1 % of the lease plus 2 ms. From 0 to 10 s; a longer margin than a third of the lease counts as a third.
func WithClockMargin(d time.Duration) ClientOption {
	return bounded("WithClockMargin", d, 0, 10*time.Second, "0 to 10s", func(s *settings) { s.engine.Margin = d })
}

// WithLogger sets the logger for events that no caller gets as an error: failed releases in the background, a maxmemory
// policy that evicts locks, observers that panic, forgotten holds. It also logs calls that have waited 1 s for a hold of
// their own process, which may be a hold of their own caller. Packages httpmw and asynqmw use the same logger. Default:
// slog.Default(). go-redis has its own logger, which writes to stderr while Redis is down: docs/operations.md shows how to
// set it.
func WithLogger(logger *slog.Logger) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: WithLogger(nil)", ErrInvalidOption)
		}
		s.engine.Logger, s.logger = logger, logger
		return nil
	}}
}
