package locktest

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A refusal is a state in which the server answers every command of the engine with an error.
type refusal struct {
	reply string
	begin func(e *env) (end func())
}

// A server leaves these states again. A call that is told so has nothing in the queue yet and may as
// well be told at once; one that waits already keeps its place, and waits on.
var passingRefusals = []scenario{
	{"by a replica ends no wait and no hold before its time", refusal{"READONLY", becomeReplica}.passes, realTime | alone},
	{"by a server that loads ends no wait and no hold before its time", refusal{"LOADING", loadDataset}.passes, realTime | alone},
	{"by a busy server ends no wait and no hold before its time", refusal{"BUSY", runEndlessly}.passes, realTime | alone},
	{"by a server that cannot save ends no wait and no hold before its time", refusal{"MISCONF", failToSave}.passes, realTime | alone | sample | costly},
}

// It will not leave these by itself, so that waiting cannot help.
var lastingRefusals = []scenario{
	{"of the scripts ends a wait at once", refusal{"NOPERM", func(e *env) func() { return e.restrictUser("~*", "&*", "+@all", "-evalsha", "-eval") }}.lasts, realTime | alone},
	{"of the keys ends a wait at once", refusal{"NOPERM", func(e *env) func() { return e.restrictUser("~other:*", "&*", "+@all") }}.lasts, realTime | alone | sample},
	{"of the password ends a wait at once", refusal{"WRONGPASS", changePassword}.lasts, realTime | alone},
}

// passes has the server refuse everything for a while, during which some hold and some wait.
func (r refusal) passes(e *env) {
	c, other := e.warm(e.client()), e.client()
	mine, key := e.key("user"), e.key("user")
	_, held := e.lock(c, mine)
	short, shortHeld := e.lock(c, e.key("user"), lockmw.WithLease(time.Second))
	busy, busyHeld := e.lock(other, key)
	patient := e.wait(c, key)
	limited := e.wait(e.client(), key)

	end := r.begin(e)
	time.AfterFunc(2*pollInterval, limited.cancel) // a poll has been refused then
	e.refusedWith(c, r.reply, redisRetries)
	e.refusedWith(c, r.reply, redisRetries, lockmw.WithWait(0))
	r.tells(e, "Unlock", held.Unlock())
	if e.ends(short) && time.Now().Before(shortHeld.Deadline()) {
		e.t.Errorf("a hold ended before its deadline: %v", context.Cause(short))
	}
	e.is("the cause of the context's end", context.Cause(short), lockmw.ErrLost)
	limited.fails(2*pollInterval+e.soon, lockmw.ErrUnavailable, context.Canceled)
	r.tells(e, "the call whose context has ended", limited.err)
	end()

	patient.isWaiting()
	if err := busy.Err(); err != nil {
		e.t.Errorf("the other hold has ended: %v", context.Cause(busy))
	}
	e.unlock(busy, busyHeld)
	e.unlock(patient.gets(pollInterval + e.soon))
	// What Unlock could not release is released now.
	_, next, err := e.rec.Lock(e.ctx, other.rival, mine, lockmw.WithWait(acceptWindow))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, next)
}

// lasts has the server refuse everything to a client that holds and waits.
func (r refusal) lasts(e *env) {
	e.setUser("~*", "&*", "+@all")
	c, other := e.clientOver(asUser("right")), e.client()
	mine, key := e.key("user"), e.key("user")
	_, held := e.lock(c, mine, lockmw.WithLease(time.Second)) // its renewals use up the connections that are closed
	busy, busyHeld := e.lock(other, key)
	w := e.wait(c, key)
	e.ticketsQueued(key, 1)

	end := r.begin(e)
	w.fails(pollInterval+e.soon, lockmw.ErrUnavailable)
	r.tells(e, "the call that waits", w.err)
	start := time.Now()
	r.tells(e, "Unlock", held.Unlock())
	if took := e.pace.since(start); took > e.soon {
		e.t.Errorf("Unlock took %v", took)
	}
	end()
	e.unlock(busy, busyHeld)
	_, next, err := e.rec.Lock(e.ctx, other.rival, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, next)
}

// tells checks that err has the server's words.
func (r refusal) tells(e *env, what string, err error) {
	e.t.Helper()
	e.is(what, err, lockmw.ErrUnavailable)
	if err != nil && !strings.Contains(err.Error(), r.reply) {
		e.t.Errorf("%s: the error does not say %q: %v", what, r.reply, err)
	}
}

func becomeReplica(e *env) (end func()) {
	e.replicaOf(e.admin, "127.0.0.1", "1") // of nobody, so that it keeps its data
	return func() { e.replicaOf(e.admin, "no", "one") }
}

func (e *env) replicaOf(rdb *redis.Client, host, port string) {
	e.t.Helper()
	if err := rdb.Do(e.ctx, "replicaof", host, port).Err(); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) configure(rdb *redis.Client, settings ...string) {
	e.t.Helper()
	for i := 0; i < len(settings); i += 2 {
		if err := rdb.ConfigSet(e.ctx, settings[i], settings[i+1]).Err(); err != nil {
			e.t.Fatalf("CONFIG SET %s: %v", settings[i], err)
		}
	}
}

// loadDataset has the server give its data to a replica and load them back, slowly.
func loadDataset(e *env) (end func()) {
	twin := redistest.Redis(e.tb)
	rdb := twin.NewClient(e.tb)
	const ballast = "for i = 1, 1000 do redis.call('SET', 'ballast:' .. i, string.rep(i, 500)) end"
	if err := e.admin.Eval(e.ctx, ballast, nil).Err(); err != nil && !errors.Is(err, redis.Nil) {
		e.t.Fatal(err)
	}
	e.configure(e.admin, "repl-diskless-sync-delay", "0")
	e.configure(rdb, "repl-diskless-sync-delay", "0")
	e.syncWith(rdb, e.server)
	e.replicaOf(rdb, "no", "one")
	e.admin.Set(e.ctx, "ballast:0", 1, 0) // what the twin does not have: else there is nothing to load
	e.configure(e.admin, "loading-process-events-interval-bytes", "1024", "key-load-delay", "10000")
	host, port := split(twin)
	e.replicaOf(e.admin, host, port)
	e.eventually(patience, func() string {
		if info := e.admin.Info(e.ctx, "persistence").Val(); !strings.Contains(info, "\nloading:1") {
			return "the server does not load"
		}
		return ""
	})
	return func() {
		e.configure(e.admin, "key-load-delay", "0")
		e.linked(e.admin)
		e.replicaOf(e.admin, "no", "one")
	}
}

// syncWith makes rdb's server a replica with the data of s.
func (e *env) syncWith(rdb *redis.Client, s *redistest.Server) {
	e.t.Helper()
	host, port := split(s)
	e.replicaOf(rdb, host, port)
	e.linked(rdb)
}

func split(s *redistest.Server) (host, port string) {
	host, port, _ = strings.Cut(s.Addr(), ":")
	return host, port
}

// linked waits until a replica has its master's data.
func (e *env) linked(rdb *redis.Client) {
	e.t.Helper()
	e.eventually(patience, func() string {
		if info := rdb.Info(e.ctx, "replication").Val(); !strings.Contains(info, "master_link_status:up") {
			return "the replica has not got its master's data"
		}
		return ""
	})
}

func runEndlessly(e *env) (end func()) {
	e.configure(e.admin, "lua-time-limit", "10")
	endless := e.server.NewClient(e.tb, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = -1, -1 })
	var wg sync.WaitGroup
	wg.Go(func() { endless.Eval(e.ctx, "while true do end", nil) })
	e.eventually(patience, func() string {
		if err := e.admin.Ping(e.ctx).Err(); err != nil && strings.Contains(err.Error(), "BUSY") {
			return ""
		}
		return "the server is not busy"
	})
	return func() {
		if err := e.admin.ScriptKill(e.ctx).Err(); err != nil {
			e.t.Fatal(err)
		}
		wg.Wait()
	}
}

func failToSave(e *env) (end func()) {
	dir := e.admin.ConfigGet(e.ctx, "dir").Val()["dir"]
	if err := os.RemoveAll(dir); err != nil || dir == "" {
		e.t.Fatalf("removing the server's directory: %v", err)
	}
	e.configure(e.admin, "save", "3600 1")
	e.admin.BgSave(e.ctx)
	e.eventually(patience, func() string {
		if err := e.admin.Set(e.ctx, "probe", 1, 0).Err(); err != nil && strings.Contains(err.Error(), "MISCONF") {
			return ""
		}
		return "the server takes writes"
	})
	return func() { e.configure(e.admin, "stop-writes-on-bgsave-error", "no") }
}

// restrictUser leaves the user less than the engine needs.
func (e *env) restrictUser(rules ...string) (end func()) {
	e.setUser(rules...)
	return func() { e.setUser("~*", "&*", "+@all") }
}

// changePassword ends the user's connections and lets it make no new ones.
func changePassword(e *env) (end func()) {
	e.setUser("~*", "&*", "+@all", "resetpass", ">other")
	e.admin.ClientKillByFilter(e.ctx, "USER", "app")
	return func() { e.setUser("~*", "&*", "+@all") }
}
