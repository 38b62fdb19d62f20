package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
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
				if res.grant.Token() <= last {
					r.Errorf("round %d: token %d after %d", round, res.grant.Token(), last)
				}
				last = res.grant.Token()
				h := r.rdb.HGetAll(r.Context(), res.grant.lease.c.keys.Holder()).Val()
				if h["id"] != res.grant.lease.id.String() || h["owner"] != "owner" ||
					h["token"] != strconv.FormatInt(last, 10) || h["inbox"] != r.e.inbox.Name {
					r.Errorf("%s: the server has %v for token %d", res.key, h, last)
				}
				ttl := r.rdb.PTTL(r.Context(), res.grant.lease.c.keys.Holder()).Val()
				if deadline := clock.Until(res.grant.Deadline()); ttl > 30*time.Second || ttl < deadline {
					r.Errorf("%s: the server's lease is %v, ours %v", res.key, ttl, deadline)
				}
			}
			r.release(all)
			if left := r.left(); len(left) > 0 {
				r.Errorf("left on the server: %q", left)
			}
			sent := r.ran("acquire_batch") + r.ran("release_batch")
			alone := r.ran("acquire") + r.ran("release")
			// A script that the server lacks is sent twice. The first copy did nothing, and the ids need no mark.
			want := 2
			if round%2 == 0 {
				want = 4
			}
			if sent != want || alone > 0 {
				r.Errorf("round %d: %d commands, and %d for locks on their own", round, sent, alone)
			}
		}
	})
}

// An obstacle to one lock of a batch does not affect the others.
func TestABatchScriptLeavesCallsThatAreNotPlain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		other := newEngine(t, r.s.NewClient(t))
		held := newRequester("item:0").acquire(t, other)
		taken := newRequester("item:1").acquire(t, other)
		waiting := newRequester("item:1").queue(t, newEngine(t, r.s.NewClient(t)))
		foreign := r.e.layout.KeySet("item:2")
		r.rdb.Set(t.Context(), foreign.Holder(), "a string", 0)
		strange := r.e.layout.KeySet("item:3")
		r.rdb.Set(t.Context(), strange.Queue(), "a string", 0)

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
		for _, h := range []*hold{held, taken} {
			if _, err := h.Release(soon); err != nil {
				t.Error(err)
			}
		}
		h := <-waiting
		if _, err := h.Release(soon); err != nil {
			t.Error(err)
		}
		for _, res := range r.granted(results, 2) {
			if _, err := res.grant.Release(soon); err != nil {
				t.Error(err)
			}
		}
	})
}

// A release in a batch grants the lock to the tickets that wait.
func TestABatchOfReleasesPassesOn(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		all := r.granted(r.acquire(r.keys(5)...), 5)
		waiting := newRequester(all[2].key).queue(t, newEngine(t, r.s.NewClient(t)))
		// Two were lost meanwhile, and have other holders.
		r.rdb.Del(t.Context(), all[3].grant.lease.c.keys.Holder(), all[4].grant.lease.c.keys.Holder())
		others := newEngine(t, r.s.NewClient(t))
		stranger, reader := newRequester(all[3].key).acquire(t, others), newRequester(all[4].key)
		reader.Mode = core.Read
		reads := reader.acquire(t, others)
		r.release(all, all[3].key, all[4].key)
		h := <-waiting
		if id := holderOf(t, r.rdb, stranger); id != stranger.lease.id.String() {
			t.Errorf("the other's lock is held by %q", id)
		}
		for _, h := range []*hold{h, stranger, reads} {
			if _, err := h.Release(soon); err != nil {
				t.Error(err)
			}
		}
	})
}

// go-redis repeats a batch whose answer is lost. The locks that the first copy took are kept.
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
			if !res.grant.lease.id.Copied() {
				t.Errorf("%s: the second copy is not counted", res.key)
			}
		}
		lost = r.wire.LoseReply("item:0")
		r.release(all)
		<-lost.Caught()
		for _, res := range all { // of the acquires copies may still arrive
			mark := res.grant.lease.c.keys.Done(res.grant.lease.id.String())
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
	rules := []string{"on", ">right", "+@all", "&*", "~lockmw:fence", "~lockmw:alive", "~warm", "~*:{warm}*"}
	for i := range 4 {
		rules = append(rules, fmt.Sprintf("~lockmw:{item:%d}*", i))
	}
	if err := redistest.SetUser(t.Context(), admin, "app", rules...); err != nil {
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
	r := &rig{T: t, s: s, wire: s.NewWire(), rdb: s.NewClient(t)}
	r.e = newEngine(t, s.NewClient(t, r.wire.Use))
	batches := func() int {
		r.wire.Record()
		r.release(r.granted(r.acquire(r.keys(5)...), 5))
		return r.ran("acquire_batch") + r.ran("release_batch")
	}
	r.e.probe.Disable()
	r.warm()
	if n := batches(); n > 0 {
		t.Errorf("%d batches before the server was probed", n)
	}
	r.wire.Cut()
	if r.e.probe.RunNow() {
		t.Error("a server that cannot be reached was probed")
	}
	r.wire.Restore()
	r.e.probe.RunNow()
	eventually(t, "a plain server is not recognized", func() bool { return batches() == 2 })
}
