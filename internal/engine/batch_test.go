package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestABatchIsOneCommand(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		const n = 20
		var last int64
		for round := range 4 {
			if round == 2 {
				r.rdb.ScriptFlush(r.Context())
			}
			r.wire.Record()
			all := r.granted(r.acquire(r.keys(n)...), n)
			for _, res := range all {
				if res.grant.token <= last {
					r.Errorf("round %d: token %d after %d", round, res.grant.token, last)
				}
				last = res.grant.token
				h := r.rdb.HGetAll(r.Context(), res.grant.lease.c.name.holder).Val()
				if h["id"] != res.grant.lease.id.String() || h["owner"] != "owner" ||
					h["token"] != strconv.FormatInt(last, 10) || h["inbox"] != r.e.inbox.channel {
					r.Errorf("%s: the server has %v for token %d", res.key, h, last)
				}
				ttl := r.rdb.PTTL(r.Context(), res.grant.lease.c.name.holder).Val()
				if deadline := time.Until(res.grant.Deadline()); ttl > 30*time.Second || ttl < deadline {
					r.Errorf("%s: the server's lease is %v, ours %v", res.key, ttl, deadline)
				}
			}
			r.release(all)
			if left := r.left(); len(left) > 0 {
				r.Errorf("left on the server: %q", left)
			}
			sent := r.ran(r.e.scripts.acquire.bulk.script) + r.ran(r.e.scripts.release.bulk.script)
			alone := r.ran(r.e.scripts.acquire) + r.ran(r.e.scripts.release)
			// When the server does not know the script of the acquires, that is sent twice, and their
			// releases mark the ids.
			if unknown := round%2 == 0; unknown && (sent != 2 || alone < n) || !unknown && (sent != 3 || alone > 0) {
				r.Errorf("round %d: %d commands, and %d for locks on their own", round, sent, alone)
			}
		}
	})
}

// What is in the way of one lock of a batch does not touch the others.
func TestABatchLeavesToOthersWhatIsNotPlain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		other := newEngine(t, r.s.NewClient(t))
		held := newAsker("item:0").acquire(t, other)
		taken := newAsker("item:1").acquire(t, other)
		waiting := newAsker("item:1").queue(t, newEngine(t, r.s.NewClient(t)))
		foreign := r.e.nameOf("item:2")
		r.rdb.Set(t.Context(), foreign.holder, "a string", 0)
		strange := r.e.nameOf("item:3")
		r.rdb.Set(t.Context(), strange.queue(), "a string", 0)

		results := r.acquire(r.keys(8)...)
		var granted []result
		for range 6 {
			switch res := <-results; {
			case res.key == "item:2" || res.key == "item:3":
				if !errors.Is(res.err, core.ErrWrongType) {
					t.Errorf("%s: %v", res.key, res.err)
				}
			case res.err != nil:
				t.Errorf("%s: %v", res.key, res.err)
			default:
				granted = append(granted, res)
			}
		}
		if len(granted) != 4 {
			t.Fatalf("%d are granted, want 4", len(granted))
		}
		r.release(granted)
		for _, g := range []*grant{held, taken} {
			if _, err := g.Release(soon); err != nil {
				t.Error(err)
			}
		}
		g := <-waiting
		if _, err := g.Release(soon); err != nil {
			t.Error(err)
		}
		for _, res := range r.granted(results, 2) {
			if _, err := res.grant.Release(soon); err != nil {
				t.Error(err)
			}
		}
	})
}

// A release in a batch passes the lock on to those who wait.
func TestABatchOfReleasesPassesOn(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		all := r.granted(r.acquire(r.keys(5)...), 5)
		waiting := newAsker(all[2].key).queue(t, newEngine(t, r.s.NewClient(t)))
		// Two were lost meanwhile, and somebody else has them.
		r.rdb.Del(t.Context(), all[3].grant.lease.c.name.holder, all[4].grant.lease.c.name.holder)
		others := newEngine(t, r.s.NewClient(t))
		stranger, reader := newAsker(all[3].key).acquire(t, others), newAsker(all[4].key)
		reader.Mode = core.Read
		reads := reader.acquire(t, others)
		r.release(all, all[3].key, all[4].key)
		g := <-waiting
		if id := holderOf(t, r.rdb, stranger); id != stranger.lease.id.String() {
			t.Errorf("the other's lock is held by %q", id)
		}
		for _, g := range []*grant{g, stranger, reads} {
			if _, err := g.Release(soon); err != nil {
				t.Error(err)
			}
		}
	})
}

// go-redis repeats a batch whose answer is lost. What the first copy took is ours.
func TestABatchIsHarmlessWhenRepeated(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		r.release(r.granted(r.acquire(r.keys(5)...), 5))
		r.release(r.granted(r.acquire(r.keys(5)...), 5)) // the server knows the scripts now
		lost := r.wire.LoseReply("item:0")
		all := r.granted(r.acquire(r.keys(5)...), 5)
		<-lost.Caught()
		for _, res := range all {
			if id := holderOf(t, r.rdb, res.grant); id != res.grant.lease.id.String() {
				t.Errorf("%s is held by %q", res.key, id)
			}
			if !res.grant.lease.id.copied() {
				t.Errorf("%s: the second copy is not counted", res.key)
			}
		}
		lost = r.wire.LoseReply("item:0")
		r.release(all)
		<-lost.Caught()
		for _, res := range all { // of the acquires copies may still arrive
			mark := res.grant.lease.c.name.done(res.grant.lease.id.String())
			if n := r.rdb.Exists(r.Context(), mark).Val(); n == 0 {
				r.Errorf("%s is not marked as over", res.key)
			}
		}
		if left := r.left(); len(left) > 0 {
			r.Errorf("left on the server: %q", left)
		}
	})
}

// A server that refuses one lock of a batch refuses the batch.
func TestABatchIsRefusedOnlyForOne(t *testing.T) {
	s := redistest.Redis(t)
	admin := s.NewClient(t)
	rule := []any{"acl", "setuser", "app", "on", ">right", "+@all", "&*", "~lockmw:fence", "~warm", "~*:{warm}*"}
	for i := range 4 {
		rule = append(rule, fmt.Sprintf("~lockmw:{item:%d}*", i))
	}
	if err := admin.Do(t.Context(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, s, func(o *redis.Options) { o.Username, o.Password = "app", "right" })
	r.warm()
	results := r.acquire(r.keys(5)...)
	var granted []result
	for range 5 {
		res := <-results
		switch {
		case res.key == "item:4":
			if !errors.Is(res.err, core.ErrUnavailable) || !strings.Contains(fmt.Sprint(res.err), "NOPERM") {
				t.Errorf("%s: %v", res.key, res.err)
			}
		case res.err != nil:
			t.Errorf("%s: %v", res.key, res.err)
		default:
			granted = append(granted, res)
		}
	}
	r.release(granted)
}

// Locks share a command only on a server that is known to be one.
func TestOneServerIsRecognized(t *testing.T) {
	s := redistest.Redis(t)
	e := newEngine(t, s.NewClient(t))
	if e.caller.bulky.Load() {
		t.Error("before it was asked")
	}
	_, _ = newAsker("item:1").acquire(t, e).Release(soon)
	eventually(t, "a plain server is not recognized", e.caller.bulky.Load)

	// A proxy that spreads scripts over two servers by their first keys.
	both := []*redis.Client{s.NewClient(t), redistest.Redis(t).NewClient(t)}
	n := 0
	proxied := s.NewClient(t)
	proxied.AddHook(pipelineHook(func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			n++
			if err := both[n%2].Process(ctx, cmd); err != nil {
				return err
			}
		}
		return nil
	}))
	if newEngine(t, proxied).isOneServer(t.Context()) {
		t.Error("two servers are taken for one")
	}
	if newEngine(t, redistest.Mini(t).NewClient(t)).isOneServer(t.Context()) {
		t.Error("a server that does not say who it is is taken for one")
	}
}

// acquireBatch runs acquire_batch.lua, with one id for all keys.
func (d *desk) acquireBatch(id string, keys ...string) ([]int64, error) {
	four := []string{d.name.fence.(string)}
	args := []any{"inbox"}
	e := &Engine{cfg: DefaultConfig(), fence: d.name.fence}
	for _, key := range keys {
		n := e.nameOf(key)
		four = append(four, n.holder, n.queue(), n.done(id))
		args = append(args, id, 30_000, "owner")
	}
	return d.rdb.Eval(d.Context(), d.scripts.acquire.bulk.script.source, four, args...).Int64Slice()
}

func TestAcquireBatch(t *testing.T) {
	onDesk(t, func(d *desk) {
		key, more := d.Name(), []string{"a", "b"}
		granted := func(what string, tokens []int64, err error, want ...bool) int64 {
			d.Helper()
			if err != nil || len(tokens) != len(want) {
				d.Fatalf("%s: %v, %v", what, tokens, err)
			}
			var last int64
			for i, token := range tokens {
				if (token > 0) != want[i] || token != -1 && token <= last {
					d.Errorf("%s: tokens %v", what, tokens)
				}
				last = max(last, token)
			}
			return last
		}
		// After a loss of the counter any token of this microsecond may have been given.
		tokens, err := d.acquireBatch("1", more...)
		last := granted("without a counter", tokens, err, true, false)
		d.rdb.Del(d.Context(), "lockmw:{a}")
		passToken(d.T, last)

		tokens, err = d.acquireBatch("2", key, "a", key, "b")
		last = granted("one twice", tokens, err, true, true, false, true)
		d.wantHolder("2")
		if n, _ := d.rdb.Get(d.Context(), "lockmw:fence").Int64(); n < last {
			d.Errorf("the counter is %d after token %d", n, last)
		}
		tokens, err = d.acquireBatch("2", key, "a", "b")
		granted("repeated", tokens, err, false, false, false)
		d.rdb.Del(d.Context(), "lockmw:{a}", "lockmw:{b}", d.name.holder)

		d.cancel("3") // overtakes
		counter, err := d.rdb.Get(d.Context(), "lockmw:fence").Int64()
		if err != nil {
			d.Fatal(err)
		}
		passToken(d.T, counter)
		tokens, err = d.acquireBatch("3", key, "a")
		granted("after its cancel", tokens, err, false, true)
		d.wantHolder("")

		// A counter that is ahead of the clock.
		ahead := time.Now().Add(time.Hour).UnixMicro()
		d.rdb.Set(d.Context(), "lockmw:fence", ahead, 0)
		tokens, err = d.acquireBatch("4", key, "b")
		if last := granted("ahead of the clock", tokens, err, true, false); last <= ahead {
			d.Errorf("token %d after %d", last, ahead)
		}
		d.rdb.Set(d.Context(), "lockmw:fence", "strange", 0)
		if tokens, err = d.acquireBatch("5", "c"); err == nil {
			d.Errorf("with a strange counter: %v", tokens)
		}
		if n := d.rdb.Exists(d.Context(), "lockmw:{c}").Val(); n > 0 {
			d.Error("taken with a strange counter")
		}
	})
}

func TestReleaseBatch(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		run := func(id string) int64 {
			d.Helper()
			got, err := d.rdb.Eval(d.Context(), d.scripts.release.bulk.script.source,
				[]string{d.name.holder, d.name.queue()}, id).Int64Slice()
			if err != nil || len(got) != 1 {
				d.Fatalf("%v, %v", got, err)
			}
			return got[0]
		}
		d.wantKind("another's", run("b"), 0)
		d.wantHolder("a")
		d.acquire("b", "wait")
		d.wantKind("with others waiting", run("a"), -1)
		d.wantHolder("a")
		d.cancel("b")
		d.wantKind("its own", run("a"), 1)
		d.wantHolder("")
		d.wantKind("repeated", run("a"), 0)
		d.rdb.Set(d.Context(), d.name.holder, "a string", 0)
		d.wantKind("somebody's key", run("a"), -1)
	})
}
