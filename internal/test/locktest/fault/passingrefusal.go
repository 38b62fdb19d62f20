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

// A refusal is a state in which the server refuses every command of the engine with an error.
type refusal struct {
	reply   string
	begin   func(e *env.Env) (end func())
	lasting bool // the state lasts until an operator ends it, so new calls fail immediately
}

// The server leaves these states by itself. Queued calls keep their place and continue to wait.
var passingRefusals = []env.Scenario{
	env.Case("a READONLY replica does not end waits or holds early", refusal{reply: "READONLY", begin: becomeReplica}.passes, env.InRealTime|env.Alone),
	env.Case("a loading server does not end waits or holds early", refusal{reply: "LOADING", begin: loadDataset}.passes, env.InRealTime|env.Alone),
	env.Case("a busy server does not end waits or holds early", refusal{reply: "BUSY", begin: runEndlessly}.passes, env.InRealTime|env.Alone),
	env.Case("a server that cannot save does not end waits or holds early", refusal{reply: "MISCONF", begin: failToSave, lasting: true}.passes, env.InRealTime|env.Alone|env.Sample|env.Costly),
}

// These states do not end by themselves, so waiting cannot help.
var lastingRefusals = []env.Scenario{
	env.Case("forbidden scripts end a wait immediately", refusal{reply: "NOPERM", begin: func(e *env.Env) func() { return restrictUser(e, "~*", "&*", "+@all", "-evalsha", "-eval") }}.lasts, env.InRealTime|env.Alone),
	env.Case("forbidden keys end a wait immediately", refusal{reply: "NOPERM", begin: func(e *env.Env) func() { return restrictUser(e, "~other:*", "&*", "+@all") }}.lasts, env.InRealTime|env.Alone|env.Sample),
	env.Case("a rejected password ends a wait immediately", refusal{reply: "WRONGPASS", begin: changePassword}.lasts, env.InRealTime|env.Alone),
}

// passes makes the server refuse everything for a while, during holds and waits.
func (r refusal) passes(e *env.Env) {
	brief := env.Repeats(1) // more retries may take longer than a TryLock or a poll interval
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
	var begun *env.Waiter // called while the server refuses
	if r.lasting {
		refusedWith(e, c, r.reply, redisRetries)
	} else {
		begun = e.Call(e.Ctx, c, e.Key("user"))
	}
	refusedWith(e, c, r.reply, redisRetries, lockmw.WithWait(0))
	r.isReported(e, "Unlock", held.Unlock())
	if e.Ends(short) && time.Now().Before(shortHeld.Deadline()) {
		e.T.Errorf("a hold ended before its deadline: %v", context.Cause(short))
	}
	e.Is("the cause of the context's end", context.Cause(short), lockmw.ErrLost)
	for range 2 { // the call returns the first refusal only after it has met the second
		if !env.Wait(e.Pace, refused, env.Patience) {
			e.T.Fatal("the server did not refuse a poll")
		}
	}
	limited.Cancel()
	limited.Fails(e.Soon, lockmw.ErrUnavailable, context.Canceled)
	r.isReported(e, "the cancelled call", limited.Err)
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
	// What Unlock could not release is released by now.
	_, next, err := e.Rec.Lock(e.Ctx, other.Rival, mine, lockmw.WithWait(env.AcceptWindow))
	if err != nil {
		e.T.Fatalf("the key is not free: %v", err)
	}
	e.Unlock(e.Ctx, next)
}

// scriptsRefused returns a channel that receives a value whenever the server refuses a script of c for key, up to twice.
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

// lasts makes the server refuse everything to a client that holds and waits.
func (r refusal) lasts(e *env.Env) {
	setUser(e, "~*", "&*", "+@all")
	c, other := e.ClientOver(asUser("right")), e.Client()
	mine, key, lease := e.Key("user"), e.Key("user"), e.Ample(time.Second)
	_, held := e.Lock(c, mine, lockmw.WithLease(lease)) // must not be lost before Unlock
	busy, busyHeld := e.Lock(other, key)
	w := e.Wait(c, key)
	e.Server.TicketsQueued(key, 1)

	end := r.begin(e)
	w.Fails(2*env.PollInterval+e.Soon, lockmw.ErrUnavailable) // the first poll may consume closed connections
	r.isReported(e, "the waiting call", w.Err)
	start := time.Now()
	r.isReported(e, "Unlock", held.Unlock())
	if took := e.Pace.Since(start); took > e.Soon {
		e.T.Errorf("Unlock took %v", took)
	}
	end()
	e.Unlock(busy, busyHeld)
	// A lock that Unlock could not release stays until its lease expires. A renewal may have extended it: go-redis may have
	// retried one until now.
	limit := max(lease, env.AcceptWindow) + redisRetries + env.PollInterval + e.Soon
	for _, key := range []string{key, mine} {
		_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(limit))
		if err != nil {
			e.T.Fatalf("the key is not free: %v", err)
		}
		e.Unlock(e.Ctx, next)
	}
	if err := c.Close(); err != nil { // it may not know yet that the remaining lease has expired
		e.Is("Close", err, lockmw.ErrUnavailable)
	}
}

// isReported checks that err contains the server's reply.
func (r refusal) isReported(e *env.Env, what string, err error) {
	e.T.Helper()
	e.Is(what, err, lockmw.ErrUnavailable)
	if err != nil && !strings.Contains(err.Error(), r.reply) {
		e.T.Errorf("%s: the error lacks %q: %v", what, r.reply, err)
	}
}

func becomeReplica(e *env.Env) (end func()) {
	replicaOf(e, e.Server.Admin, "127.0.0.1", "1") // without a master, so that it keeps its data
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

// loadDataset makes a replica with the server's data, and makes the server load them back slowly.
func loadDataset(e *env.Env) (end func()) {
	const often = "loading-process-events-interval-bytes"
	if known, err := e.Server.Admin.ConfigGet(e.Ctx, often).Result(); err != nil || len(known) == 0 {
		e.TB.Skipf("the server does not answer while it loads: it lacks %s, %v", often, err)
	}
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
	e.Server.Admin.Set(e.Ctx, "ballast:0", 1, 0) // data that the twin lacks: otherwise nothing would be loaded
	configure(e, e.Server.Admin, often, "1024", "key-load-delay", "10000")
	host, port := split(twin)
	replicaOf(e, e.Server.Admin, host, port)
	e.Eventually(env.Patience, func() string {
		if info := e.Server.Admin.Info(e.Ctx, "persistence").Val(); !strings.Contains(info, "\nloading:1") {
			return "the server is not loading"
		}
		return ""
	})
	return func() {
		configure(e, e.Server.Admin, "key-load-delay", "0")
		linked(e, e.Server.Admin)
		replicaOf(e, e.Server.Admin, "no", "one")
	}
}

// syncWith makes rdb's server a replica of s, with its data.
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
			return "the replica has not synced"
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
		return "the server still accepts writes"
	})
	return func() { configure(e, e.Server.Admin, "stop-writes-on-bgsave-error", "no") }
}

// restrictUser revokes rights that the engine needs.
func restrictUser(e *env.Env, rules ...string) (end func()) {
	setUser(e, rules...)
	return func() { setUser(e, "~*", "&*", "+@all") }
}

// changePassword closes the user's connections and prevents new ones.
func changePassword(e *env.Env) (end func()) {
	setUser(e, "~*", "&*", "+@all", "resetpass", ">other")
	e.Server.Admin.ClientKillByFilter(e.Ctx, "USER", "app")
	return func() { setUser(e, "~*", "&*", "+@all") }
}
