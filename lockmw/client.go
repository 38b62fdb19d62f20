package lockmw

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/inside"
)

// A Client takes plain, reentrant locks in Redis. Goroutines of one Client that want the same key pass the lock on to one
// another, in the order of their calls. While other processes wait, they do so a limited number of times: see
// WithLocalPasses. Safe for concurrent use. One Client per process is enough; several Clients do not re-enter one
// another's locks.
type Client struct {
	mark
	locker *kindLocker
	engine *engine.Engine
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ Locker = (*Client)(nil)

// New returns a Client that keeps its locks in rdb: a *redis.Client, a Sentinel or Cluster client, or a type that embeds one.
// For these New sends nothing. A wrapper that hides its client can have a method Unwrap() redis.UniversalClient. Without
// that method New asks the servers what they are, for at most 2 s, and returns an error if it cannot tell.
//
// Every Option is also a ClientOption: it sets the default for all locks of the Client. An error wraps ErrInvalidOption if
// rdb cannot be used, or if an option is invalid or contradicts another one, such as a lease that is longer than the
// quarantine.
func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) {
	s, err := newClientSettings(opts)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(rdb, s.engine)
	if err != nil {
		return nil, err
	}
	locker, err := newKindLocker(e, core.Kind{Mode: core.Exclusive}, &s)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	c := &Client{locker: locker, engine: e}
	c.mark = inside.NewMark(c, locker)
	return c, nil
}

// Lock implements Locker. It waits for key's lock until ctx ends, unless WithWait limits the wait.
func (c *Client) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return c.made().Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it does not wait for other holders.
func (c *Client) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return c.made().TryLock(ctx, key, opts...)
}

// Logger returns the logger of WithLogger, or slog.Default(). Packages httpmw and asynqmw log to the Logger of their
// Locker. A Locker that wraps a Client should have this method as well, and return the Client's logger.
func (c *Client) Logger() *slog.Logger { return c.made().Logger() }

// Shutdown waits until all holds have been unlocked, and lets no new ones begin: calls for locks and waits fail with
// ErrClosed. The watchdog continues to renew leases, and the contexts of leaders (Lead) end. If ctx ends first, Shutdown
// returns an error that wraps ctx.Err() and says how many holds remain. Call Close afterwards.
func (c *Client) Shutdown(ctx context.Context) error {
	c.made()
	checkContext(ctx)
	return c.engine.Shutdown(ctx)
}

// Close ends all waits and holds with ErrClosed and releases the locks. It returns when the Client's goroutines have ended.
// The redis client stays open. Further calls of Close do nothing.
//
// Close continues for as long as Redis confirms releases. After 2 s without a confirmation it waits for the redis client to
// give up its commands, logs how many locks are left, and returns an error with that number that wraps ErrUnavailable.
// These locks expire with their leases.
func (c *Client) Close() error {
	c.made()
	return c.engine.Close()
}
