package lockmw

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/inside"
)

// A Client takes locks in Redis: the plain, reentrant lock. Goroutines of one Client that want the same key
// pass the lock on to one another, in the order of their calls. While other processes wait they do so a
// bounded number of times. Safe for concurrent use. One Client per process is enough; several Clients do not
// re-enter one another's locks.
type Client struct {
	mark
	locker *kindLocker
	engine *engine.Engine
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ Locker = (*Client)(nil)

// New returns a Client on rdb, which may be a *redis.Client, a Sentinel or a Cluster client, or a type that embeds one. It
// sends nothing then. A wrapper that hides what is in it can have the method Unwrap() redis.UniversalClient; if it has
// not, New asks the servers what they are, for 2 s at most, and refuses what it cannot tell. Every Option is also a
// ClientOption: the default for all locks of the Client. An error wraps ErrInvalidOption: an option is invalid or contradicts
// another one, such as a lease that is longer than the quarantine.
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

// Lock implements Locker.
func (c *Client) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return c.made().lock(ctx, key, opts)
}

// TryLock is Lock with WithWait(0).
func (c *Client) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return c.made().TryLock(ctx, key, opts...)
}

// Logger returns the logger of WithLogger, or slog.Default(). Packages httpmw and asynqmw log to the Logger of their
// Locker: one that wraps a Client passes it on by having this method, too.
func (c *Client) Logger() *slog.Logger { return c.made().Logger() }

// Shutdown refuses new locks with ErrClosed, ends waits with it, and returns when all holds have
// ended or ctx does. In the second case its error wraps ctx.Err and says how many holds have not ended. Meanwhile the watchdog
// renews leases. Call Close afterwards.
func (c *Client) Shutdown(ctx context.Context) error {
	c.made()
	checkContext(ctx)
	return c.engine.Shutdown(ctx)
}

// Close ends everything now: waits and holds end with ErrClosed, and the locks are released. It returns when
// the Client's goroutines have ended. It continues for as long as Redis confirms releases. After 2 s without a confirmation it
// waits for the redis client to give up its commands, logs how many locks are left, and returns an ErrUnavailable with that
// number. These locks become free when their leases expire. The redis client stays open. Further calls of Close do nothing.
func (c *Client) Close() error {
	c.made()
	return c.engine.Close()
}
