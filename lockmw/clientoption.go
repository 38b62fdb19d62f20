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

// A ClientOption is any Option, or one of those that concern a Client as a whole.
type ClientOption interface{ option.Client }

type clientOption struct {
	option.ForClient
	apply func(*settings) error
}

// settings is what the options of New, NewInspector and NewLocal add up to.
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

// newClientSettings is newSettings for a Client or an Inspector, whose calls would all share one place.
func newClientSettings(opts []ClientOption) (settings, error) {
	s, err := newSettings(opts)
	if err == nil && s.policy.Place != "" {
		err = fmt.Errorf("%w: WithPlace is for one call: all would share the place of %q", ErrInvalidOption, shorten(s.policy.Place))
	}
	return s, err
}

// WithPrefix sets the prefix of everything the Client keeps in Redis; default "lockmw". Clients with
// different prefixes do not see each other's locks. At most 100 bytes, printable ASCII without
// spaces and braces.
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

// WithLocalPasses sets how often a lock may be passed on within this process while another process waits for
// it; default 32, at most 10000. More is faster under contention, less is fairer between processes. With 0
// every release hands the lock to the next process.
func WithLocalPasses(n int) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if n < 0 || n > 10_000 {
			return fmt.Errorf("%w: WithLocalPasses(%d), must be from 0 to 10000", ErrInvalidOption, n)
		}
		s.engine.LocalPasses = n
		return nil
	}}
}

// WithReplicas has a hold count only while at least n replicas have what it rests on: its grant, each renewal, and each
// Extend. The same goes for Once: a tick is begun, and marked as run, when n replicas have noted it, or Once returns an error.
// So a server that dies with locks it has just granted does not end in two holders of a key, if one of those n
// replicas takes its place. That is certain if n is the number of all replicas of the master, and as far as their clocks
// agree: one whose clock is ahead ends leases early. In a Cluster n counts the replicas of the key's own master. If a slot moves
// to another master, its holds are renewed immediately, and end after 1 s if the replicas there do not acknowledge them: the
// Deadline becomes earlier. While the move is under way, and on servers older than Redis 7, that waits for the next renewal:
// docs/topologies.md has the gap. n is from
// 1 to 100, the timeout from 1 ms to half the ReadTimeout of the redis client, which is 5 s by default. Default: the answer
// of the server itself is enough.
//
// A grant and a renewal take one round trip to the replicas more: the server is asked by WAIT after the script, on the same
// connection. Unlock and locks that are passed on within this process need none: a WithMinHold may be cut short by a fail-over
// after the Unlock, and a place that was kept may be lost. If fewer than n replicas have it within the
// timeout, the call goes on trying as long as it has time to wait, and fails with ErrUnavailable, and a renewal counts as
// failed. Redis looks at the timeout about ten times a second only.
//
// A server that does not know WAIT, or a user that may not send it, fails each call with ErrUnavailable at once. All clients
// that share keys should have the option. Two masters at once it does not prevent: for that give the server
// min-replicas-to-write 1 and min-replicas-max-lag 1 as well.
func WithReplicas(n int, timeout time.Duration) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if n < 1 || n > 100 || timeout < time.Millisecond {
			return fmt.Errorf("%w: WithReplicas(%d, %v), must be from 1 to 100 replicas, and at least 1ms", ErrInvalidOption, n, timeout)
		}
		s.engine.Replicas = transport.Replicas{Count: n, Timeout: timeout}
		return nil
	}}
}

// WithQuarantine has a server that may have lost locks grant none for d: one that was restarted, that takes another's place,
// or that the Client has not seen before and that has not run for d. By then all locks are over that were granted before,
// also those that the server has lost. Meanwhile calls wait, tries fail with ErrUnavailable, which says for how long, and
// holds that the server still has go on: they are renewed and released. From 4 s to 24 h. Default: none, and two can hold a
// lock that a server has lost, until the deadline of the first one.
//
// d must be longer than every lease, minimum hold and Extend, and longer than twice the Within of each Tick of Once. New, a
// wrapper or a call that wants more fails with ErrInvalidOption, and names both. Add the time for which a master continues
// that another one has replaced: min-replicas-max-lag, or cluster-node-timeout. All clients that share keys, and their
// Inspectors, must have the same quarantine, or it promises nothing; a shorter one than that of another client is refused
// when it first uses a server.
//
// A lock costs a few microseconds more on the server. It must allow INFO, and should allow CONFIG GET. A planned
// fail-over and a new server refuse locks for d, too, and so does one with replicas that no client with a quarantine has
// seen in 30 days. It does not help against FLUSHALL, DEBUG RELOAD NOSAVE, a virtual machine that is set back, slots of a
// Cluster that are given to a running master without their data, a clock of the server that steps forward within d after
// its start, and two masters at once.
func WithQuarantine(d time.Duration) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if d < 4*time.Second || d > 24*time.Hour {
			return fmt.Errorf("%w: WithQuarantine(%v), must be from 4s to 24h", ErrInvalidOption, d)
		}
		s.engine.Quarantine = d
		return nil
	}}
}

// WithUnlockTimeout sets how long Unlock waits for the server; default 2 s, from 1 ms to 1 min.
func WithUnlockTimeout(d time.Duration) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if d < time.Millisecond || d > time.Minute {
			return fmt.Errorf("%w: WithUnlockTimeout(%v), must be from 1ms to 1m", ErrInvalidOption, d)
		}
		s.engine.Unlock = d
		return nil
	}}
}

// WithClockMargin sets by how much a hold ends earlier here than at the server, for clocks that run at
// different speeds. Default: 1 % of the lease and 2 ms. At most 10 s, and never more than a third of the
// lease.
func WithClockMargin(d time.Duration) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if d < 0 || d > 10*time.Second {
			return fmt.Errorf("%w: WithClockMargin(%v), must be from 0 to 10s", ErrInvalidOption, d)
		}
		s.engine.Margin = d
		return nil
	}}
}

// WithLogger sets the logger for events without a caller: failed releases in the background, a maxmemory
// policy that evicts locks, observers that panic, holds that were forgotten; and for calls that have waited for
// 1 s for a hold of their own process, which may be their own caller's. Packages httpmw and asynqmw log to it too.
// Default slog.Default(). go-redis has a logger of its own, which writes to stderr while Redis is down: docs/operations.md says how
// to set it.
func WithLogger(logger *slog.Logger) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: WithLogger(nil)", ErrInvalidOption)
		}
		s.engine.Logger, s.logger = logger, logger
		return nil
	}}
}
