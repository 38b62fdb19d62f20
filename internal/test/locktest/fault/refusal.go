package fault

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var refusals = []env.Scenario{
	env.Case("the server's error reply is returned", refusedByError, env.OnServer|env.OneNode|env.InBubble),
	env.Case("a wrong password fails immediately", refusedPassword, env.InRealTime|env.Alone|env.Sample),
	env.Case("forbidden scripts fail immediately", func(e *env.Env) { refusedByACL(e, "~*", "&*", "+@all", "-evalsha", "-eval") }, env.InRealTime|env.Alone),
	env.Case("forbidden keys fail immediately", func(e *env.Env) { refusedByACL(e, "~other:*", "&*", "+@all") }, env.InRealTime|env.Alone),
	env.Case("forbidden channels do not prevent locking", refusedChannels, env.InRealTime|env.Alone),
	env.Case("a refused PUBLISH does not leave half a release", refusedPublication, env.InRealTime|env.Alone|env.Sample),
	env.Case("a refused connection returns ErrUnavailable", refusedConnection, env.OnServer|env.Shares),
}

// refusedWith calls Lock and checks that it fails with the server's reply.
func refusedWith(e *env.Env, c *env.Client, reply string, within time.Duration, opts ...lockmw.Option) {
	e.T.Helper()
	start := time.Now()
	_, hold, err := c.Lock(e.Ctx, e.Key("user"), opts...)
	if err == nil {
		e.T.Errorf("%s: took the lock: %v", reply, hold.Unlock())
		return
	}
	e.Is(reply, err, lockmw.ErrUnavailable)
	if !strings.Contains(err.Error(), reply) {
		e.T.Errorf("the error lacks %q: %v", reply, err)
	}
	if errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrLost) {
		e.T.Errorf("%s is reported as a busy or lost lock: %v", reply, err)
	}
	if took := e.Pace.Since(start); took > within {
		e.T.Errorf("%s: returned after %v", reply, took)
	}
}

// redisRetries is how long go-redis takes to retry some replies.
const redisRetries = 3 * time.Second

func refusedByError(e *env.Env) {
	c, held := e.Client().Warm(), e.Key("user")
	ctx, hold := e.Lock(c, held)
	for _, reply := range []string{
		"READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"NOAUTH Authentication required.",
		"NOPERM User app has no permissions to run the 'evalsha' command",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"ERR something else",
	} {
		e.Server.Mini.SetError(reply)
		refusedWith(e, c, reply, redisRetries, lockmw.WithWait(0))
		e.Server.Mini.SetError("")
	}
	e.Unlock(ctx, hold)
	e.Free(c, held)
}

func setUser(e *env.Env, rules ...string) {
	e.T.Helper()
	rules = append([]string{"reset", "on", ">right"}, rules...)
	if err := redistest.SetUser(e.Ctx, e.Server.Admin, "app", rules...); err != nil {
		e.T.Fatal(err)
	}
}

func asUser(password string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = "app", password }
}

func refusedPassword(e *env.Env) {
	setUser(e, "~*", "&*", "+@all")
	c := e.ClientOver(asUser("wrong"))
	refusedWith(e, c, "WRONGPASS", e.Soon)
	refusedWith(e, c, "WRONGPASS", e.Soon, lockmw.WithWait(0))
	e.Free(e.ClientOver(asUser("right")), e.Key("user"))
}

func refusedByACL(e *env.Env, rules ...string) {
	e.T.Helper()
	setUser(e, rules...)
	c := e.ClientOver(asUser("right"))
	refusedWith(e, c, "NOPERM", e.Soon)
	refusedWith(e, c, "NOPERM", e.Soon, lockmw.WithWait(0))
	// A right that a hold was taken with may be revoked later.
	setUser(e, "~*", "&*", "+@all")
	key := e.Key("user")
	_, held := e.Lock(c, key, lockmw.WithLease(e.Ample(600*time.Millisecond)))
	setUser(e, rules...)
	e.Is("Unlock", held.Unlock(), lockmw.ErrUnavailable)
	e.Is("Close", c.Close(), lockmw.ErrUnavailable) // the lock stays until its lease expires
}

func refusedChannels(e *env.Env) {
	setUser(e, "~*", "resetchannels", "+@all")
	c, other, key := e.ClientOver(asUser("right")), e.Client(), e.Key("user")
	e.Free(c, key)
	ctx, held := e.Lock(other, key)
	w := e.Call(e.Ctx, c.Rival, key) // it cannot receive a grant, so it may poll or fail immediately
	select {
	case <-w.Done:
		w.Fails(0, lockmw.ErrUnavailable)
		e.Unlock(ctx, held)
	case <-time.After(2 * env.PollInterval):
		e.Unlock(ctx, held)
		e.Unlock(w.Gets(2*env.PollInterval + e.Soon))
	}
	e.Free(other, key)
}

func refusedPublication(e *env.Env) {
	setUser(e, "~*", "&*", "+@all")
	c, other, key := e.ClientOver(asUser("right")), e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	w := e.Wait(other, key)
	e.Server.TicketsQueued(key, 1)
	setUser(e, "~*", "resetchannels", "+@all")
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(env.PollInterval + e.Soon))
}

func refusedConnection(e *env.Env) {
	// go-redis pauses for up to a second after as many failed dials as its pool has connections.
	c := e.ClientOver(func(o *redis.Options) { o.PoolSize = 1000 })
	c.Wire.Cut()
	for wait, limit := range map[time.Duration]time.Duration{0: env.Patience, time.Hour: time.Second} {
		ctx, cancel := context.WithTimeout(e.Ctx, limit)
		_, _, err := c.Lock(ctx, e.Key("user"), lockmw.WithWait(wait))
		cancel()
		e.Is("Lock without a server", err, lockmw.ErrUnavailable)
		if errors.Is(err, lockmw.ErrBusy) {
			e.T.Errorf("a refused connection is reported as a busy lock: %v", err)
		}
	}
	c.Wire.Restore()
	e.Free(c, e.Key("user"))
}
