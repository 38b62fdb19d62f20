package env

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A Client takes the locks of one process.
type Client struct {
	Sides
	e      *Env
	closer Closer                // nil for a Local
	Redis  *lockmw.Client        // nil for a Local, and for one over several nodes
	Server redis.UniversalClient // the redis client of Redis; nil if Redis is nil
	Wire   *redistest.Wire       // nil for a Local
}

// A Closer is closed or shut down.
type Closer interface {
	Close() error
	Shutdown(ctx context.Context) error
}

// Close ends all holds of c.
func (c *Client) Close() error { return c.closer.Close() }

// Shutdown waits until all holds of c are unlocked, then closes c.
func (c *Client) Shutdown(ctx context.Context) error { return c.closer.Shutdown(ctx) }

// Client returns a new client. All clients of a Local share its locks.
func (e *Env) Client(opts ...lockmw.ClientOption) *Client {
	return e.ClientOver(func(*redis.Options) {}, opts...)
}

// ClientOver is Client with edited options of its redis client.
func (e *Env) ClientOver(edit func(*redis.Options), opts ...lockmw.ClientOption) *Client {
	e.T.Helper()
	if e.Local != nil {
		return &Client{Sides: e.Config.sides(e.Local), e: e}
	}
	wire := e.Server.NewWire()
	logger := slog.New(slog.NewTextHandler(e.TB.Output(), nil))
	opts = slices.Concat(e.Config.layout(e.Server.Prefix), []lockmw.ClientOption{lockmw.WithLogger(logger)}, opts)
	if e.Config.OverNodes != nil {
		return e.overNodes(wire, edit, opts)
	}
	rdb := e.Server.NewClient(e.TB, wire.Use, edit)
	c, err := lockmw.New(rdb, opts...)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() {
		wire.Restore()
		if err := c.Close(); err != nil {
			e.T.Errorf("Close: %v", err)
		}
	})
	locker := lockmw.Locker(c)
	if e.Config.Wrap != nil {
		locker = e.Config.Wrap(c)
	}
	return &Client{Sides: e.Config.sides(locker), e: e, closer: c, Redis: c, Server: rdb, Wire: wire}
}

// overNodes is ClientOver for several nodes.
func (e *Env) overNodes(wire *redistest.Wire, edit func(*redis.Options), opts []lockmw.ClientOption) *Client {
	e.T.Helper()
	var nodes []*lockmw.Client
	for _, s := range e.Server.all.Servers() {
		plain := func(o *redis.Options) { // this opens many connections: see Repeats
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		}
		c, err := lockmw.New(s.NewClient(e.TB, wire.Use, plain, edit), opts...)
		if err != nil {
			e.T.Fatal(err)
		}
		nodes = append(nodes, c)
	}
	l := e.Config.OverNodes(nodes)
	e.T.Cleanup(func() {
		wire.Restore()
		if err := l.Close(); err != nil {
			e.T.Errorf("Close: %v", err)
		}
		for _, c := range nodes {
			if err := c.Close(); err != nil {
				e.T.Errorf("Close of a node: %v", err)
			}
		}
	})
	return &Client{Sides: e.Config.sides(l), e: e, closer: l, Wire: wire}
}

// Clients returns n clients.
func (e *Env) Clients(n int) []*Client {
	all := make([]*Client, n)
	for i := range all {
		all[i] = e.Client()
	}
	return all
}

// Repeats makes a client resend a lost command up to n times; -1: never.
func Repeats(n int) func(*redis.Options) {
	return func(o *redis.Options) {
		o.MaxRetries = n
		// Each new connection negotiates maintenance notifications, which these tests do not need. If one breaks meanwhile, the
		// next ones wait at a mutex for its retry. In a bubble that is a deadlock, because time does not pass there.
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
}

// With returns a copy of c that takes its locks from l.
func (c *Client) With(l lockmw.Locker) *Client {
	other := *c
	other.Sides = Sides{Locker: l, Rival: l}
	return &other
}

// AsReader returns a copy of c whose Locker is the reading side.
func (c *Client) AsReader() *Client {
	reader := *c
	reader.Locker, reader.reads = c.Reader(), true
	return &reader
}

// Warm loads the scripts of an uncontended lock, so that none has to be sent again for NOSCRIPT.
func (c *Client) Warm() *Client {
	c.e.T.Helper()
	c.e.Unlock(c.e.Lock(c, c.e.Key("warm")))
	return c
}

// WarmForWaits is Warm for a client that will wait: it subscribes, so that its next wait begins without a poll.
func (c *Client) WarmForWaits() *Client {
	c.e.T.Helper()
	key := c.e.Key("warm")
	ctx, held := c.e.Lock(c.e.Client(), key)
	w := c.e.Wait(c.Warm(), key)
	c.e.Unlock(ctx, held)
	c.e.Unlock(w.Gets(PollInterval + c.e.Soon))
	return c
}

// Refused checks that a Lock fails immediately with want, and sends no command.
func (c *Client) Refused(what string, want error, key string, opts ...lockmw.Option) {
	c.e.T.Helper()
	if c.Wire != nil {
		c.Wire.Record()
	}
	start := time.Now()
	_, _, err := c.e.Rec.Lock(c.e.Ctx, c, key, opts...)
	c.e.Is(what, err, want)
	if took := c.e.Pace.Since(start); took > c.e.Soon {
		c.e.T.Errorf("%s: refused after %v", what, took)
	}
	if c.Wire != nil && len(c.Wire.Sent()) > 0 {
		c.e.T.Errorf("%s: sent %q", what, c.Wire.Sent())
	}
}

// SilentCall calls Lock with a timeout of CallLimit while the server does not answer.
func (c *Client) SilentCall(key string, opts ...lockmw.Option) {
	c.e.T.Helper()
	limit := c.e.CallLimit()
	ctx, cancel := context.WithTimeout(c.e.Ctx, limit)
	defer cancel()
	start := time.Now()
	_, _, err := c.Lock(ctx, key, opts...)
	took := c.e.Pace.Since(start)
	if took > limit+c.e.Soon {
		c.e.T.Errorf("the call with a context of %v took %v", limit, took)
	}
	c.e.Is("Lock of a silent server", err, lockmw.ErrUnavailable, context.DeadlineExceeded)
	if errors.Is(err, lockmw.ErrBusy) {
		c.e.T.Errorf("a silent server is reported as a busy lock: %v", err)
	}
}

// Copied calls do while the first copy of the command that it sends about key is withheld. The client finds its connection
// broken and sends a second copy. The server must know the script, because a full text is written in several pieces.
func (c *Client) Copied(key string, do func()) *redistest.Fault {
	c.e.T.Helper()
	fault := c.Wire.Withhold(key, "evalsha")
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		fault.Break()
	}()
	do()
	c.e.Caught(fault)
	<-broken
	return fault
}
