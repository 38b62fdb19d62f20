package script_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// tickNow is a tick of a job that is due now.
func tickNow() core.Tick {
	return core.Tick{At: time.Now().Truncate(time.Second), Within: time.Minute, Keep: 3 * time.Minute}
}

// wantBegun checks the answer to a hold that begins a tick.
func wantBegun(d *scripttest.Driver, when string, got script.Began, want core.TickAnswer) {
	d.Helper()
	if got.Outcome != script.Done || got.Answer != want {
		d.Errorf("%s: %+v, want the answer %d", when, got, want)
	}
	if blur := time.Since(got.Now).Abs(); blur > scripttest.Soon {
		d.Errorf("%s: the server's time is %v", when, got.Now)
	}
}

// wantNoted checks the note of a tick, and its TTL.
func wantNoted(d *scripttest.Driver, when string, tick core.Tick, want string) {
	d.Helper()
	key := d.Keys.Tick(tick.At)
	if got := d.Redis.Get(d.Context(), key).Val(); got != want {
		d.Errorf("%s, it is noted %q, want %q", when, got, want)
	}
	if ttl := d.Redis.PTTL(d.Context(), key).Val(); want != "" && (ttl > tick.Keep || ttl < tick.Keep-scripttest.Soon) {
		d.Errorf("%s, that is noted for %v, want %v", when, ttl, tick.Keep)
	}
}

// hold has an id take the lock, and returns its token.
func hold(d *scripttest.Driver, id string) int64 {
	d.Helper()
	got := d.Fair(id)
	d.WantHeld(id, got)
	return got.Grant.Token
}

func TestATickIsRunOnce(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		tick := tickNow()
		a := hold(d, "a")
		for range 2 { // a run of a script may come twice
			wantBegun(d, "the first one", d.Begin("a", a, tick), core.TickBegun)
			wantNoted(d, "when it was begun", tick, fmt.Sprint("begun ", a))
		}
		for range 2 {
			if d.Mark(a, tick) {
				d.Error("another hold has begun it")
			}
			wantNoted(d, "when it was run", tick, fmt.Sprint("ran ", a))
		}
		wantBegun(d, "a copy that is late", d.Begin("a", a, tick), core.TickRan)
		d.Release("a")

		b := hold(d, "b")
		wantBegun(d, "the next one", d.Begin("b", b, tick), core.TickRan)
		wantNoted(d, "when another one asked", tick, fmt.Sprint("ran ", a))
		next := tick
		next.At = tick.At.Add(time.Second)
		wantBegun(d, "the next tick", d.Begin("b", b, next), core.TickBegun)
	})
}

func TestATickIsBegunTwiceAtMost(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		tick := tickNow()
		tokens := make(map[string]int64)
		for _, id := range []string{"a", "b"} {
			tokens[id] = hold(d, id)
			for range 2 {
				wantBegun(d, id, d.Begin(id, tokens[id], tick), core.TickBegun)
			}
			d.Release(id) // as if its lease had expired
		}
		for _, id := range []string{"c", "d"} {
			wantBegun(d, id, d.Begin(id, hold(d, id), tick), core.TickFailed)
			d.Release(id)
		}
		begun := fmt.Sprint("begun ", tokens["a"], " ", tokens["b"])
		wantNoted(d, "begun twice", tick, begun)
		for range 2 { // a mark that comes late, and its copy
			if !d.Mark(tokens["a"], tick) {
				d.Error("it does not report the later hold that has begun the tick")
			}
		}
		if d.Mark(tokens["b"], tick) {
			d.Error("it reports a hold after the last one that began the tick")
		}
		wantNoted(d, "marked", tick, "ran"+strings.TrimPrefix(begun, "begun"))
		wantBegun(d, "after the mark", d.Begin("e", hold(d, "e"), tick), core.TickRan)
	})
}

func TestOnlyTheHolderBeginsATick(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		tick := tickNow()
		d.Want("with a free lock", d.Begin("a", 5, tick).Outcome, script.NotHeld)
		a := hold(d, "a")
		d.Want("another one", d.Begin("b", a, tick).Outcome, script.NotHeld)
		d.Release("a")
		d.Want("after the release", d.Begin("a", a, tick).Outcome, script.NotHeld)
		hold(d, "b")
		d.Want("while another one has it", d.Begin("a", a, tick).Outcome, script.NotHeld)
		wantNoted(d, "nobody began it", tick, "")
	})
}

func TestTheServersClockDecidesWhetherATickIsDue(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		now, err := d.Redis.Time(d.Context()).Result()
		if err != nil {
			d.Fatal(err)
		}
		whole := now.Truncate(time.Millisecond).Add(time.Millisecond) // so that the limits are exact
		later(whole.Sub(now))
		now = whole
		token := hold(d, "a")
		for by, want := range map[time.Duration]core.TickAnswer{
			0: core.TickBegun, time.Minute: core.TickBegun, -time.Minute: core.TickBegun,
			time.Minute + time.Millisecond: core.TickOff, -time.Minute - time.Millisecond: core.TickOff,
			24 * time.Hour: core.TickOff, -24 * time.Hour: core.TickOff,
		} {
			tick := core.Tick{At: now.Add(by), Within: time.Minute, Keep: 3 * time.Minute}
			got := d.Begin("a", token, tick)
			if got.Answer != want || !got.Now.Equal(now) {
				d.Errorf("%v from now: %+v, want the answer %d", by, got, want)
			}
			d.Mark(token, tick)
			if got := d.Begin("a", token, tick); got.Answer != core.TickRan {
				d.Errorf("%v from now, after the mark: %+v", by, got)
			}
		}

		tick := core.Tick{At: now.Add(time.Hour), Within: time.Minute, Keep: 3 * time.Minute}
		later(59 * time.Minute)
		token = hold(d, "b")
		if got := d.Begin("b", token, tick); got.Answer != core.TickBegun {
			d.Errorf("a minute before: %+v", got)
		}
		d.Mark(token, tick)
		later(2 * time.Minute)
		d.Release("b")
		token = hold(d, "c")
		if got := d.Begin("c", token, tick); got.Answer != core.TickRan {
			d.Errorf("a minute after, which is as long as it may be begun: %+v", got)
		}
	})
}

// A foreign value at the key of a tick is reported and left alone, and nothing runs.
func TestAStrangerAtATickIsLeftAlone(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		tick := tickNow()
		key := d.Keys.Tick(tick.At)
		token := hold(d, "a")
		all := strangers(d)
		for _, text := range []string{"", "begun", "ran", "begun x", "ran 5 6 7", "begun 5\n", "done 5"} {
			all["text "+text] = func(key string) error { return d.Redis.Set(d.Context(), key, text, 0).Err() }
		}
		for kind, put := range all {
			d.Redis.Del(d.Context(), key)
			if err := put(key); err != nil {
				d.Fatal(err)
			}
			before := d.Redis.Dump(d.Context(), key).Val()
			for what, op := range map[string]scripttest.Operation{
				"begin": &script.Begin{Keys: d.Keys, ID: scripttest.ID("a"), Token: token, Tick: tick},
				"mark":  &script.Mark{Keys: d.Keys, Token: token, Tick: tick},
			} {
				if err := transport.Failure(d.Send(op).Err); !errors.Is(err, core.ErrWrongType) {
					d.Errorf("a %s: %s: %v, want ErrWrongType", kind, what, err)
				}
				if d.Redis.Dump(d.Context(), key).Val() != before || d.Redis.PTTL(d.Context(), key).Val() > 0 {
					d.Errorf("a %s: %s changed it", kind, what)
				}
			}
		}
		d.Redis.Del(d.Context(), key, d.Keys.Holder())
		d.Redis.Set(d.Context(), d.Keys.Holder(), "theirs", 0)
		err := transport.Failure(d.Send(&script.Begin{Keys: d.Keys, ID: scripttest.ID("a"), Token: token, Tick: tick}).Err)
		if !errors.Is(err, core.ErrWrongType) || d.Redis.Exists(d.Context(), key).Val() != 0 {
			d.Errorf("a stranger at the holder: %v", err)
		}
	})
}

// A full server refuses to let a tick begin, so that nothing runs. A run that has begun before can be marked.
func TestWithFullMemoryATickIsMarkedAndNoneIsBegun(t *testing.T) {
	tick := tickNow()
	var token int64
	for what, prepare := range map[string]func(d *scripttest.Driver){
		"marked":                func(d *scripttest.Driver) { d.Begin("a", token, tick) },
		"marked without a note": func(*scripttest.Driver) {},
	} {
		onFullMemory(t, what, func(d *scripttest.Driver) {
			token = hold(d, "a")
			prepare(d)
		}, func(d *scripttest.Driver) {
			other := tick
			other.At = tick.At.Add(time.Second)
			r := d.Send(&script.Begin{Keys: d.Keys, ID: scripttest.ID("a"), Token: token, Tick: other})
			if r.Err == nil || !strings.Contains(r.Err.Error(), "OOM") || d.Redis.Exists(d.Context(), d.Keys.Tick(other.At)).Val() != 0 {
				d.Errorf("begin: %v, want OOM", r.Err)
			}
			if d.Mark(token, tick) {
				d.Error("another hold has begun it")
			}
			wantNoted(d, "marked", tick, fmt.Sprint("ran ", token))
		})
	}
}

// If the mark is cut off after a write, the tick is still begun, and the mark is written again.
func TestAMarkThatIsCutOffIsWrittenAgain(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		source := script.NewSet(script.DefaultParams(true)).All()["mark"].Source
		before, after, ok := strings.Cut(source, "call('SET'")
		if !ok || strings.Contains(after, "call('") {
			d.Fatalf("SET is not the last write:\n%s", source)
		}
		for _, begun := range []bool{true, false} {
			tick := tickNow()
			token := hold(d, "a")
			if begun {
				d.Begin("a", token, tick)
			}
			noted := d.Redis.Get(d.Context(), d.Keys.Tick(tick.At)).Val()
			err := d.Redis.Eval(d.Context(), before+"error('cut off') call('SET'"+after, []string{d.Keys.Tick(tick.At)}, token, 180000).Err()
			if err == nil || !strings.Contains(err.Error(), "cut off") {
				d.Fatal(err)
			}
			wantNoted(d, "cut off", tick, noted)
			d.Mark(token, tick)
			wantNoted(d, "marked", tick, fmt.Sprint("ran ", token))
			d.Release("a")
			d.Redis.FlushAll(d.Context())
		}
	})
}

// The note of a tick expires, and hides no lock from an operator.
func TestTicksAreNoLocks(t *testing.T) {
	layout := script.NewLayout("lockmw", transport.Topology{})
	keys := layout.KeySet("report:{daily}")
	at := time.UnixMilli(1795358195100)
	if got, want := keys.Tick(at), "lockmw:{report:%7Bdaily%7D}:tick:1795358195100"; got != want {
		t.Errorf("the key is %q, want %q", got, want)
	}
	if key, ok := layout.KeyOf(keys.Tick(at)); ok {
		t.Errorf("it is taken for the lock %q", key)
	}
	if key, _, ok := layout.KeptPlaceOf(keys.Tick(at)); ok {
		t.Errorf("it is taken for a kept place of %q", key)
	}
}
