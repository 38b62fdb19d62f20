package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// patience is how long a scenario waits for what must happen, before it gives up.
const patience = 30 * time.Second

// A reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Failed() bool
	Cleanup(f func())
}

// An env is what one scenario runs on.
type env struct {
	t    reporter
	tb   testing.TB // the scenario's test
	cfg  Config
	rec  *Recorder
	soon time.Duration // the bound for what happens at once
	ctx  context.Context

	goroutines leak.Goroutines // that the scenario has started
	pace       *pace

	server *redistest.Server // nil: none
	admin  *redis.Client     // sees the server, takes no locks
	prefix string
	local  *lockmw.Local
}

func newEnv(t *testing.T, c Config) *env {
	t.Helper()
	e := &env{t: t, tb: t, cfg: c, prefix: "t" + strings.ToLower(rand.Text()[:10])}
	e.goroutines, e.pace = leak.Check(t, dialler), c.pace
	e.soon = 50 * time.Millisecond
	if !c.Bubble {
		// Machines that run tests are busy. It must stay under the poll interval: what is found by
		// the next poll only did not happen at once.
		e.soon = 600 * time.Millisecond
	}
	e.rec = e.newRecorder()
	limit := 4 * time.Minute
	if c.Bubble {
		limit = 24 * time.Hour // of a time that costs nothing
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	e.ctx = ctx
	if c.Server == nil {
		e.local = lockmw.NewLocal()
		return e
	}
	if e.server = c.shared; e.server != nil {
		e.admin = e.server.NewClient(t, asGuest)
	} else {
		e.server = c.Server(t)
		e.admin = e.server.NewClient(t)
	}
	t.Cleanup(e.checkClosed) // after the clients' cleanups
	return e
}

func (e *env) newRecorder() *Recorder {
	r := NewRecorder(e.soon)
	r.pace = e.pace
	return r
}

// A client is one process' way to the locks.
type client struct {
	sides
	redis *lockmw.Client  // nil for a Local
	wire  *redistest.Wire // nil for a Local
}

// client returns one more of them; a Local has only one.
func (e *env) client(opts ...lockmw.ClientOption) *client {
	return e.clientOver(func(*redis.Options) {}, opts...)
}

// clientOver is client with other options of its redis client.
func (e *env) clientOver(edit func(*redis.Options), opts ...lockmw.ClientOption) *client {
	e.t.Helper()
	if e.local != nil {
		return &client{sides: e.cfg.sides(e.local)}
	}
	wire := e.server.NewWire()
	rdb := e.server.NewClient(e.tb, wire.Use, edit)
	logger := slog.New(slog.NewTextHandler(e.tb.Output(), nil))
	opts = append([]lockmw.ClientOption{lockmw.WithPrefix(e.prefix), lockmw.WithLogger(logger)}, opts...)
	c, err := lockmw.New(rdb, opts...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		wire.Restore()
		if err := c.Close(); err != nil {
			e.t.Errorf("Close: %v", err)
		}
	})
	locker := lockmw.Locker(c)
	if e.cfg.Wrap != nil {
		locker = e.cfg.Wrap(c)
	}
	return &client{sides: e.cfg.sides(locker), redis: c, wire: wire}
}

// clients returns n of them.
func (e *env) clients(n int) []*client {
	all := make([]*client, n)
	for i := range all {
		all[i] = e.client()
	}
	return all
}

// warm makes the server know the scripts of an uncontended lock, so that none is sent twice for that.
func (e *env) warm(c *client) *client {
	e.t.Helper()
	e.unlock(e.lock(c, e.key("warm")))
	return c
}

// key returns a key that no other test uses.
func (e *env) key(kind string) string { return lockmw.Key(kind, rand.Text()) }

// redisKey is where a key made by key lives on the server.
func (e *env) redisKey(key string) string { return e.prefix + ":{" + key + "}" }

// lock takes a lock that must be had at once.
func (e *env) lock(l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *Held) {
	e.t.Helper()
	return e.lockWith(e.ctx, l, key, opts...)
}

func (e *env) lockWith(ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *Held) {
	e.t.Helper()
	ctx, held, err := e.rec.Lock(ctx, l, key, opts...)
	if err != nil {
		e.t.Fatalf("Lock: %v", err)
	}
	return ctx, held
}

// unlock takes lock's results.
func (e *env) unlock(_ context.Context, h *Held) {
	e.t.Helper()
	if err := h.Unlock(); err != nil {
		e.t.Errorf("Unlock: %v", err)
	}
}

// free checks that key can be had by l within the time for what happens at once, for itself alone.
func (e *env) free(l lockmw.Locker, key string) {
	e.t.Helper()
	start := time.Now()
	_, held, err := e.rec.Lock(e.ctx, rivalOf(l), key, lockmw.WithWait(e.soon))
	for left := e.soon - e.pace.since(start); err != nil && left > 0; left = e.soon - e.pace.since(start) {
		_, held, err = e.rec.Lock(e.ctx, rivalOf(l), key, lockmw.WithWait(left))
	}
	if err != nil {
		e.t.Errorf("the key is not free: %v", err)
		return
	}
	e.unlock(e.ctx, held)
}

// busy checks that somebody has key.
func (e *env) busy(l lockmw.Locker, key string) {
	e.t.Helper()
	_, held, err := rivalOf(l).Lock(e.ctx, key, lockmw.WithWait(0))
	if err == nil {
		e.t.Errorf("the key is free: unlocking it again: %v", held.Unlock())
	} else if !errors.Is(err, lockmw.ErrBusy) {
		e.t.Errorf("trying a busy lock: %v, want ErrBusy", err)
	}
}

// is checks that err is one of want.
func (e *env) is(what string, err error, want ...error) {
	e.t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			e.t.Errorf("%s: %v; want an error that wraps %q", what, err, w)
		}
	}
}

// lost checks that a hold ended with its lock.
func (e *env) lost(ctx context.Context, h *Held) {
	e.t.Helper()
	if !e.ends(ctx) {
		return
	}
	e.is("the cause of the context's end", context.Cause(ctx), lockmw.ErrLost)
	e.is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
}

// ends checks that ctx does, before patience does.
func (e *env) ends(ctx context.Context) bool {
	e.t.Helper()
	select {
	case <-ctx.Done():
		return true
	case <-time.After(patience):
		e.t.Error("the context does not end")
		return false
	}
}

// eventually waits until done returns nothing, and else reports what it returned last.
func (e *env) eventually(within time.Duration, done func() string) {
	e.t.Helper()
	if missing := e.pace.await(within, done); missing != "" {
		e.t.Errorf("after %v: %s", within, missing)
	}
}

// next returns what comes next.
func next[T any](e *env, from <-chan T) (v T) {
	e.t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		e.t.Fatalf("nothing has come after %v", patience)
	}
	return v
}

// pass lets time pass, where that is what a scenario is about.
func (e *env) pass(d time.Duration) { passes(e.ctx, d) }

// passes returns after d, or when ctx ends.
func passes(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// checkServerIsClean looks for what the scenario left on the server, before anything is closed: the
// fencing counter and the marks of ids that are over may stay.
func (e *env) checkServerIsClean() {
	e.t.Helper()
	if e.server == nil {
		return
	}
	e.eventually(acceptWindow+2*pollInterval, func() string {
		keys, err := e.server.Keys(e.ctx, e.admin, e.prefix)
		if err != nil {
			return err.Error()
		}
		var left []string
		for _, key := range keys {
			if key != e.prefix+":fence" && !strings.Contains(key, "}:done:") {
				left = append(left, key)
			}
		}
		if len(left) == 0 {
			return ""
		}
		return "left on the server: " + strings.Join(left, " ")
	})
}

// checkClosed runs when all clients are closed: it looks for what they left running.
func (e *env) checkClosed() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e.eventually(e.soon, func() string {
		channels, err := e.admin.PubSubChannels(ctx, e.prefix+"*").Result()
		if err != nil {
			return err.Error()
		}
		if len(channels) > 0 {
			return "still subscribed: " + strings.Join(channels, " ")
		}
		return ""
	})
	e.eventually(e.soon, func() string { return engineGoroutine(e.goroutines) }) // it may still be about to end
}

// engineGoroutine looks for what a closed Client has left running.
func engineGoroutine(among leak.Goroutines) string {
	if stack := among.In("/lockmw/go/internal/engine."); stack != "" {
		return "still running: " + stack
	}
	return ""
}
