package lockmw

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/option"
)

// A ClientOption is any Option, or one of those that concern a Client as a whole.
type ClientOption interface{ option.Client }

type clientOption struct {
	option.ForClient
	apply func(*settings) error
}

// settings is what the options of New, NewInspector and OverLocks add up to.
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
// Default slog.Default().
func WithLogger(logger *slog.Logger) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: WithLogger(nil)", ErrInvalidOption)
		}
		s.engine.Logger, s.logger = logger, logger
		return nil
	}}
}
