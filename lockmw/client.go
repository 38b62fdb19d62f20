package lockmw

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/kind"
	"github.com/lockmw/go/internal/option"
)

// A Client takes locks in Redis: the plain, reentrant lock. Goroutines of one Client that want the
// same key pass the lock on among themselves, in the order in which they asked, for a bounded number
// of times while other processes wait. Safe for concurrent use; one Client per process is enough, and
// several do not re-enter one another's locks.
type Client struct {
	locker locker
	engine *engine.Engine
}

var _ Locker = (*Client)(nil)

// New returns a Client on rdb, which may be a *redis.Client, a Sentinel or a Cluster client. It
// sends nothing. Every Option is also a ClientOption: the default for all locks of the Client. An
// error wraps ErrInvalidOption.
func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(rdb, s.engine)
	if err != nil {
		return nil, err
	}
	return &Client{
		engine: e,
		locker: locker{
			locks: e, mode: core.Exclusive, base: s.policy,
			unlockTimeout: s.engine.Unlock, logger: s.engine.Logger,
		},
	}, nil
}

// Lock implements Locker.
func (c *Client) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return c.locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0).
func (c *Client) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return c.locker.TryLock(ctx, key, opts...)
}

// Shutdown refuses new locks with ErrClosed, ends waits with it, and returns when all holds have
// ended or ctx does. The watchdog goes on meanwhile. Call Close afterwards.
func (c *Client) Shutdown(ctx context.Context) error { return c.engine.Shutdown(ctx) }

// Close ends everything now: waits and holds end with ErrClosed, the latter's locks are released,
// and the Client's goroutines stop before it returns. While Redis is away it tries to release for 2 s,
// and then waits for the redis client to give up what is on its way. The redis client stays open.
// Further calls do nothing.
func (c *Client) Close() error { return c.engine.Close() }

// newLocker returns a locker of another mode, for packages fairlock and rwlock. The options take
// precedence over the Client's.
func (c *Client) newLocker(mode core.Mode, opts []Option) (*locker, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: the Client is nil", ErrInvalidOption)
	}
	l := c.locker
	l.mode, l.queues = mode, mode == core.Fair
	return &l, l.base.apply(opts)
}

func init() {
	kind.New = func(client any, mode core.Mode, options any) (any, error) {
		return client.(*Client).newLocker(mode, options.([]Option))
	}
}

// A ClientOption is any Option, or one of those that concern a Client as a whole.
type ClientOption interface{ option.Client }

type clientOption struct {
	option.ForClient
	apply func(*settings) error
}

// settings is what the options of New and NewInspector add up to.
type settings struct {
	engine engine.Config
	policy Policy
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
	if s.policy.Ticket != "" {
		return s, fmt.Errorf("%w: WithTicket is for one call: all would share the place of %q", ErrInvalidOption, shorten(s.policy.Ticket))
	}
	return s, nil
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

// WithLocalPasses sets how often a lock may be passed on within this process while another process
// waits for it; default 32, at most 10000. More is faster under contention, less is fairer between
// processes; 0 hands it to the next process at every release.
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

// WithClockMargin sets how much earlier than the server a hold is considered over here, for clocks
// that run at different speeds; default 1 % of the lease and 2 ms. At most 10 s; a third of the lease
// is never exceeded.
func WithClockMargin(d time.Duration) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if d < 0 || d > 10*time.Second {
			return fmt.Errorf("%w: WithClockMargin(%v), must be from 0 to 10s", ErrInvalidOption, d)
		}
		s.engine.Margin = d
		return nil
	}}
}

// WithLogger sets where what has no caller is logged: failed releases in the background, a
// maxmemory policy that evicts locks, observers that panic. Default slog.Default().
func WithLogger(logger *slog.Logger) ClientOption {
	return clientOption{apply: func(s *settings) error {
		if logger == nil {
			return fmt.Errorf("%w: WithLogger(nil)", ErrInvalidOption)
		}
		s.engine.Logger = logger
		return nil
	}}
}
