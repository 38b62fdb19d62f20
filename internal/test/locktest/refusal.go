package locktest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

var refusals = []scenario{
	{"by any error is told with the server's words", refusedByError, server | bubble},
	{"of a password is told at once", refusedPassword, realTime | alone | sample},
	{"of the scripts is told at once", func(e *env) { e.refusedByACL("~*", "&*", "+@all", "-evalsha", "-eval") }, realTime | alone},
	{"of the keys is told at once", func(e *env) { e.refusedByACL("~other:*", "&*", "+@all") }, realTime | alone},
	{"of the channels does not keep a lock from being used", refusedChannels, realTime | alone},
	{"of a publication does not leave half a release", refusedPublication, realTime | alone | sample},
	{"of a connection is told", refusedConnection, server | shares},
}

// refusedWith calls Lock and checks that it fails with the server's reply.
func (e *env) refusedWith(c *client, reply string, within time.Duration, opts ...lockmw.Option) {
	e.t.Helper()
	start := time.Now()
	_, hold, err := c.Lock(e.ctx, e.key("user"), opts...)
	if err == nil {
		e.t.Errorf("%s: got the lock: %v", reply, hold.Unlock())
		return
	}
	e.is(reply, err, lockmw.ErrUnavailable)
	if !strings.Contains(err.Error(), reply) {
		e.t.Errorf("the error does not say %q: %v", reply, err)
	}
	if errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrLost) {
		e.t.Errorf("%s is told as a lost race: %v", reply, err)
	}
	if took := e.pace.since(start); took > within {
		e.t.Errorf("%s: told after %v", reply, took)
	}
}

// redisRetries is how long go-redis takes for its own retries of some replies.
const redisRetries = 3 * time.Second

func refusedByError(e *env) {
	c, held := e.warm(e.client()), e.key("user")
	ctx, hold := e.lock(c, held)
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
		e.server.Mini.SetError(reply)
		e.refusedWith(c, reply, redisRetries, lockmw.WithWait(0))
		e.server.Mini.SetError("")
	}
	e.unlock(ctx, hold)
	e.free(c, held)
}

func (e *env) setUser(rules ...string) {
	e.t.Helper()
	args := []any{"acl", "setuser", "app", "reset", "on", ">right"}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := e.admin.Do(e.ctx, args...).Err(); err != nil {
		e.t.Fatal(err)
	}
}

func asUser(password string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = "app", password }
}

func refusedPassword(e *env) {
	e.setUser("~*", "&*", "+@all")
	c := e.clientOver(asUser("wrong"))
	e.refusedWith(c, "WRONGPASS", e.soon)
	e.refusedWith(c, "WRONGPASS", e.soon, lockmw.WithWait(0))
	e.free(e.clientOver(asUser("right")), e.key("user"))
}

func (e *env) refusedByACL(rules ...string) {
	e.t.Helper()
	e.setUser(rules...)
	c := e.clientOver(asUser("right"))
	e.refusedWith(c, "NOPERM", e.soon)
	e.refusedWith(c, "NOPERM", e.soon, lockmw.WithWait(0))
	// What was granted before may be refused later.
	e.setUser("~*", "&*", "+@all")
	key := e.key("user")
	_, held := e.lock(c, key, lockmw.WithLease(time.Second))
	e.setUser(rules...)
	e.is("Unlock", held.Unlock(), lockmw.ErrUnavailable)
}

func refusedChannels(e *env) {
	e.setUser("~*", "resetchannels", "+@all")
	c, other, key := e.clientOver(asUser("right")), e.client(), e.key("user")
	e.free(c, key)
	ctx, held := e.lock(other, key)
	w := e.call(e.ctx, c.rival, key) // it cannot be told of a grant: it may poll, or say so at once
	select {
	case <-w.done:
		w.fails(0, lockmw.ErrUnavailable)
		e.unlock(ctx, held)
	case <-time.After(2 * pollInterval):
		e.unlock(ctx, held)
		e.unlock(w.gets(2*pollInterval + e.soon))
	}
	e.free(other, key)
}

func refusedPublication(e *env) {
	e.setUser("~*", "&*", "+@all")
	c, other, key := e.clientOver(asUser("right")), e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	w := e.wait(other, key)
	e.ticketsQueued(key, 1)
	e.setUser("~*", "resetchannels", "+@all")
	e.unlock(ctx, held)
	e.unlock(w.gets(pollInterval + e.soon))
}

func refusedConnection(e *env) {
	c := e.client()
	c.wire.Cut()
	for _, wait := range []time.Duration{0, time.Hour} {
		ctx, cancel := context.WithTimeout(e.ctx, patience)
		_, _, err := c.Lock(ctx, e.key("user"), lockmw.WithWait(wait))
		cancel()
		e.is("Lock without a server", err, lockmw.ErrUnavailable)
		if errors.Is(err, lockmw.ErrBusy) {
			e.t.Errorf("a refused connection is told as a lost race: %v", err)
		}
	}
	c.wire.Restore()
	e.free(c, e.key("user"))
}
