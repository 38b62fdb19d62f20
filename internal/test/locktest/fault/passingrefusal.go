package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A refusal is a state in which the server answers every command of the engine with an error.
type refusal struct {
	reply  string
	begin  func(e *env.Env) (end func())
	mended bool // the state ends when somebody mends the server: a call that begins in it does not wait for that
}

// A server leaves these states again. A call that waits already keeps its place, and waits on.
var passingRefusals = []env.Scenario{
	env.Case("by a replica ends no wait and no hold before its time", refusal{reply: "READONLY", begin: becomeReplica}.passes, env.InRealTime|env.Alone),
	env.Case("by a server that loads ends no wait and no hold before its time", refusal{reply: "LOADING", begin: loadDataset}.passes, env.InRealTime|env.Alone),
	env.Case("by a busy server ends no wait and no hold before its time", refusal{reply: "BUSY", begin: runEndlessly}.passes, env.InRealTime|env.Alone),
	env.Case("by a server that cannot save ends no wait and no hold before its time", refusal{reply: "MISCONF", begin: failToSave, mended: true}.passes, env.InRealTime|env.Alone|env.Sample|env.Costly),
}

// It will not leave these by itself, so that waiting cannot help.
var lastingRefusals = []env.Scenario{
	env.Case("of the scripts ends a wait at once", refusal{reply: "NOPERM", begin: func(e *env.Env) func() { return restrictUser(e, "~*", "&*", "+@all", "-evalsha", "-eval") }}.lasts, env.InRealTime|env.Alone),
	env.Case("of the keys ends a wait at once", refusal{reply: "NOPERM", begin: func(e *env.Env) func() { return restrictUser(e, "~other:*", "&*", "+@all") }}.lasts, env.InRealTime|env.Alone|env.Sample),
	env.Case("of the password ends a wait at once", refusal{reply: "WRONGPASS", begin: changePassword}.lasts, env.InRealTime|env.Alone),
}

// passes has the server refuse everything for a while, during which some hold and some wait.
func (r refusal) passes(e *env.Env) {
	brief := env.Repeats(1) // more may take longer than a try, or than from one poll to the next
	c, other := e.ClientOver(brief).Warm(), e.Client()
	mine, key := e.Key("user"), e.Key("user")
	_, held := e.Lock(c, mine)
	short, shortHeld := e.Lock(c, e.Key("user"), lockmw.WithLease(e.Ample(600*time.Millisecond)))
	busy, busyHeld := e.Lock(other, key)
	patient := e.Wait(c, key)
	impatient := e.ClientOver(brief)
	refused := r.scriptsRefused(impatient, key)
	limited := e.Wait(impatient, key)

	end := r.begin(e)
	var begun *env.Waiter // while the server refuses
	if r.mended {
		refusedWith(e, c, r.reply, redisRetries)
	} else {
		begun = e.Call(e.Ctx, c, e.Key("user"))
	}
	refusedWith(e, c, r.reply, redisRetries, lockmw.WithWait(0))
	r.tells(e, "Unlock", held.Unlock())
	if e.Ends(short) && time.Now().Before(shortHeld.Deadline()) {
		e.T.Errorf("a hold ended before its deadline: %v", context.Cause(short))
	}
	e.Is("the cause of the context's end", context.Cause(short), lockmw.ErrLost)
	for range 2 { // the call knows of the first refusal when it meets the second
		if !e.Pace.Wait(refused, env.Patience) {
			e.T.Fatal("the server refuses no poll")
		}
	}
	limited.Cancel()
	limited.Fails(e.Soon, lockmw.ErrUnavailable, context.Canceled)
	r.tells(e, "the call whose context has ended", limited.Err)
	end()

	if begun != nil {
		e.Unlock(begun.Gets(redisRetries + e.Soon))
	}
	patient.IsWaiting()
	if err := busy.Err(); err != nil {
		e.T.Errorf("the other hold has ended: %v", context.Cause(busy))
	}
	e.Unlock(busy, busyHeld)
	e.Unlock(patient.Gets(env.PollInterval + e.Soon))
	// What Unlock could not release is released now.
	_, next, err := e.Rec.Lock(e.Ctx, other.Rival, mine, lockmw.WithWait(env.AcceptWindow))
	if err != nil {
		e.T.Fatalf("the key is not free: %v", err)
	}
	e.Unlock(e.Ctx, next)
}

// scriptsRefused returns a channel with a value for each time the server refuses scripts of c for the key, up to two.
func (r refusal) scriptsRefused(c *env.Client, key string) <-chan struct{} {
	refused := make(chan struct{}, 2)
	c.Server.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		err := send()
		if text := fmt.Sprint(err, cmds); strings.Contains(text, key) && strings.Contains(text, r.reply) {
			select {
			case refused <- struct{}{}:
			default: // enough are counted
			}
		}
		return err
	}))
	return refused
}

// lasts has the server refuse everything to a client that holds and waits.
func (r refusal) lasts(e *env.Env) {
	setUser(e, "~*", "&*", "+@all")
	c, other := e.ClientOver(asUser("right")), e.Client()
	mine, key, lease := e.Key("user"), e.Key("user"), e.Ample(time.Second)
	_, held := e.Lock(c, mine, lockmw.WithLease(lease)) // not to be lost before Unlock
	busy, busyHeld := e.Lock(other, key)
	w := e.Wait(c, key)
	e.Server.TicketsQueued(key, 1)

	end := r.begin(e)
	w.Fails(2*env.PollInterval+e.Soon, lockmw.ErrUnavailable) // the first poll may use up connections that are closed
	r.tells(e, "the call that waits", w.Err)
	start := time.Now()
	r.tells(e, "Unlock", held.Unlock())
	if took := e.Pace.Since(start); took > e.Soon {
		e.T.Errorf("Unlock took %v", took)
	}
	end()
	e.Unlock(busy, busyHeld)
	// What Unlock could not release may have to wait for the end of its lease, which a renewal may have begun anew: go-redis
	// may have tried that again until now.
	limit := max(lease, env.AcceptWindow) + redisRetries + env.PollInterval + e.Soon
	for _, key := range []string{key, mine} {
		_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(limit))
		if err != nil {
			e.T.Fatalf("the key is not free: %v", err)
		}
		e.Unlock(e.Ctx, next)
	}
	if err := c.Close(); err != nil { // it may not have been told that the lease of what was left has run out
		e.Is("Close", err, lockmw.ErrUnavailable)
	}
}

// tells checks that err has the server's words.
func (r refusal) tells(e *env.Env, what string, err error) {
	e.T.Helper()
	e.Is(what, err, lockmw.ErrUnavailable)
	if err != nil && !strings.Contains(err.Error(), r.reply) {
		e.T.Errorf("%s: the error does not say %q: %v", what, r.reply, err)
	}
}

func becomeReplica(e *env.Env) (end func()) {
	replicaOf(e, e.Server.Admin, "127.0.0.1", "1") // of nobody, so that it keeps its data
	return func() { replicaOf(e, e.Server.Admin, "no", "one") }
}

func replicaOf(e *env.Env, rdb redis.UniversalClient, host, port string) {
	e.T.Helper()
	if err := rdb.Do(e.Ctx, "replicaof", host, port).Err(); err != nil {
		e.T.Fatal(err)
	}
}

func configure(e *env.Env, rdb redis.UniversalClient, settings ...string) {
	e.T.Helper()
	for i := 0; i < len(settings); i += 2 {
		if err := rdb.ConfigSet(e.Ctx, settings[i], settings[i+1]).Err(); err != nil {
			e.T.Fatalf("CONFIG SET %s: %v", settings[i], err)
		}
	}
}

// loadDataset has the server give its data to a replica and load them back, slowly.
func loadDataset(e *env.Env) (end func()) {
	twin := redistest.Redis(e.TB)
	rdb := twin.NewClient(e.TB)
	const ballast = "for i = 1, 1000 do redis.call('SET', 'ballast:' .. i, string.rep(i, 500)) end"
	if err := e.Server.Admin.Eval(e.Ctx, ballast, nil).Err(); err != nil && !errors.Is(err, redis.Nil) {
		e.T.Fatal(err)
	}
	configure(e, e.Server.Admin, "repl-diskless-sync-delay", "0")
	configure(e, rdb, "repl-diskless-sync-delay", "0")
	syncWith(e, rdb, e.Server.Server)
	replicaOf(e, rdb, "no", "one")
	e.Server.Admin.Set(e.Ctx, "ballast:0", 1, 0) // what the twin does not have: else there is nothing to load
	configure(e, e.Server.Admin, "loading-process-events-interval-bytes", "1024", "key-load-delay", "10000")
	host, port := split(twin)
	replicaOf(e, e.Server.Admin, host, port)
	e.Eventually(env.Patience, func() string {
		if info := e.Server.Admin.Info(e.Ctx, "persistence").Val(); !strings.Contains(info, "\nloading:1") {
			return "the server does not load"
		}
		return ""
	})
	return func() {
		configure(e, e.Server.Admin, "key-load-delay", "0")
		linked(e, e.Server.Admin)
		replicaOf(e, e.Server.Admin, "no", "one")
	}
}

// syncWith makes rdb's server a replica with the data of s.
func syncWith(e *env.Env, rdb redis.UniversalClient, s *redistest.Server) {
	e.T.Helper()
	host, port := split(s)
	replicaOf(e, rdb, host, port)
	linked(e, rdb)
}

func split(s *redistest.Server) (host, port string) {
	host, port, _ = strings.Cut(s.Addr(), ":")
	return host, port
}

// linked waits until a replica has its master's data.
func linked(e *env.Env, rdb redis.UniversalClient) {
	e.T.Helper()
	e.Eventually(env.Patience, func() string {
		if info := rdb.Info(e.Ctx, "replication").Val(); !strings.Contains(info, "master_link_status:up") {
			return "the replica has not got its master's data"
		}
		return ""
	})
}

func runEndlessly(e *env.Env) (end func()) {
	configure(e, e.Server.Admin, "lua-time-limit", "10")
	endless := e.Server.NewClient(e.TB, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = -1, -1 })
	var wg sync.WaitGroup
	wg.Go(func() { endless.Eval(e.Ctx, "while true do end", nil) })
	e.Eventually(env.Patience, func() string {
		if err := e.Server.Admin.Ping(e.Ctx).Err(); err != nil && strings.Contains(err.Error(), "BUSY") {
			return ""
		}
		return "the server is not busy"
	})
	return func() {
		if err := e.Server.Admin.ScriptKill(e.Ctx).Err(); err != nil {
			e.T.Fatal(err)
		}
		wg.Wait()
	}
}

func failToSave(e *env.Env) (end func()) {
	dir := e.Server.Admin.ConfigGet(e.Ctx, "dir").Val()["dir"]
	if err := os.RemoveAll(dir); err != nil || dir == "" {
		e.T.Fatalf("removing the server's directory: %v", err)
	}
	configure(e, e.Server.Admin, "save", "3600 1")
	e.Server.Admin.BgSave(e.Ctx)
	e.Eventually(env.Patience, func() string {
		if err := e.Server.Admin.Set(e.Ctx, "probe", 1, 0).Err(); err != nil && strings.Contains(err.Error(), "MISCONF") {
			return ""
		}
		return "the server takes writes"
	})
	return func() { configure(e, e.Server.Admin, "stop-writes-on-bgsave-error", "no") }
}

// restrictUser leaves the user less than the engine needs.
func restrictUser(e *env.Env, rules ...string) (end func()) {
	setUser(e, rules...)
	return func() { setUser(e, "~*", "&*", "+@all") }
}

// changePassword ends the user's connections and lets it make no new ones.
func changePassword(e *env.Env) (end func()) {
	setUser(e, "~*", "&*", "+@all", "resetpass", ">other")
	e.Server.Admin.ClientKillByFilter(e.Ctx, "USER", "app")
	return func() { setUser(e, "~*", "&*", "+@all") }
}
