package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestAcquireAnswersTheSameWhenRepeated(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		first := d.Lock("a")
		again := d.Lock("a")
		if again.Outcome != script.Held || again.Grant.Token != first.Grant.Token {
			d.Errorf("the second run: %+v, the first: %+v", again, first)
		}
		for range 2 {
			d.Want("acquire of a held lock", d.Lock("b").Outcome, script.Queued)
		}
		if n := d.Redis.ZCard(d.Context(), d.Keys.Queue()).Val(); n != 1 {
			d.Errorf("%d tickets after two runs of one acquire, want 1", n)
		}
	})
}

func TestAcquireAfterAMarkedReleaseIsRefused(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		d.ReleaseMarked("a")
		d.Want("a late copy of acquire", d.Lock("a").Outcome, script.Over)
		d.WantHolder("")
		d.Lock("b") // and now a ticket waits
		d.Fair("c")
		d.ReleaseMarked("b")
		d.Want("a late copy of acquire while others wait", d.Lock("b").Outcome, script.Over)
		d.WantHolder("c")
	})
}

func TestReleaseGrantsToTheHeadOfTheQueue(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		before := d.Lock("a").Grant.Token
		for _, id := range []string{"b", "c"} {
			d.Lock(id)
		}
		d.Release("a")
		d.WantHolder("b")
		if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl > script.AcceptWindow {
			d.Errorf("a grant that was not accepted lasts %v", ttl)
		}
		d.Want("poll of the new holder", d.PollOne("b"), script.Held)
		if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl <= script.AcceptWindow {
			d.Errorf("a grant that was answered lasts %v, want the lease", ttl)
		}
		if token := d.Lock("b").Grant.Token; token <= before {
			d.Errorf("token %d after %d", token, before)
		}
		d.Want("poll of the other", d.PollOne("c"), script.Queued)
	})
}

func TestHandOver(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a1")
		d.Lock("b")
		for range 2 { // its reply was lost
			d.Want("hand-over", d.HandOver("a1", "a2").Outcome, script.Queued)
			d.WantHolder("b")
		}
		d.Release("b")
		d.WantHolder("a2")
		d.Want("hand-over with nobody waiting", d.HandOver("a2", "a3").Outcome, script.Held)
		d.WantHolder("a3")
	})
}

func TestRenewalNeverShortensALease(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		d.WantRenewed("renewal", d.Renew("a", time.Second), scripttest.Renewed)
		if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl < 20*time.Second {
			d.Errorf("%v are left of the lease of 30 s", ttl)
		}
	})
}

// An embedded server rounds PTTL down. So a script that keeps a longer lease must not set it to the PTTL that it has read.
func TestManyRenewalsShortenNoOtherLease(t *testing.T) {
	for name, prepare := range map[string]func(d *scripttest.Driver){
		"of readers": func(d *scripttest.Driver) {
			d.Acquire(scripttest.Acquire{ID: "long", Mode: core.Read, Lease: time.Hour})
			d.Read("a")
		},
		"that was extended": func(d *scripttest.Driver) { d.Lock("a"); d.Renew("a", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEach(t, func(d *scripttest.Driver) {
				start := time.Now()
				prepare(d)
				for range 50 {
					d.Renew("a", scripttest.Lease)
					d.PollOne("a")
				}
				ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val()
				if least := time.Hour - time.Since(start) - 2*time.Millisecond; ttl < least {
					d.Errorf("%v are left, want %v at least", ttl, least)
				}
			})
		})
	}
}

func TestReleaseCanKeepTheKeyTaken(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		d.Want("release", d.Linger("a", 5*time.Second), script.Done)
		d.Want("a late copy", d.Linger("a", 5*time.Second), script.NotHeld)
		d.Want("another release", d.Release("a"), script.NotHeld)
		d.Want("try", d.TryLock("b").Outcome, script.Queued)
		if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl <= 0 || ttl > 5*time.Second {
			d.Errorf("it stays taken for %v, want at most 5 s", ttl)
		}
	})
}

// The counter is in microseconds, so further tokens must not be taken from the future.
func TestTokensIncreaseAndStayBehindTheClock(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		last := int64(0)
		for i := range 200 {
			id := fmt.Sprint("id", i)
			got := d.Acquire(scripttest.Acquire{ID: id, Tokens: 1 + i%7*1000})
			if got.Outcome != script.Held || got.Grant.Token <= last {
				d.Fatalf("%+v after %d", got, last)
			}
			last = got.Grant.Token + got.Grant.Tokens - 1
			now := d.Redis.Time(d.Context()).Val().UnixMicro()
			if got.Grant.Tokens > 1 && last > now {
				d.Fatalf("token %d is %d µs ahead of the server's clock", last, last-now)
			}
			d.Release(id)
			if i == 100 {
				d.Redis.Del(d.Context(), d.Keys.Fence()) // as after FLUSHALL
			}
		}
	})
}

func TestDeadTicketsArePassedOver(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		dead := scripttest.IDs("dead", 3*script.MaxReaped)
		for _, id := range dead {
			d.Lock(id)
		}
		d.Lock("alive")
		d.Kill(dead...)
		d.Want("release", d.Release("a"), script.More)
		for range 4 {
			d.OthersBeat()
			d.Poll()
		}
		d.WantHolder("alive")
	})
}

func TestNobodyIsTakenForDeadAfterTheServerWasAway(t *testing.T) {
	for _, polledFirst := range []bool{true, false} {
		scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
			for _, id := range []string{"a", "b", "c"} {
				d.Lock(id)
			}
			later(10 * time.Second)
			if polledFirst {
				d.Want("poll of c before the release", d.PollOne("c"), script.Queued)
			}
			d.Release("a")
			d.WantHolder("b")
			d.Want("poll of c", d.PollOne("c"), script.Queued)
		})
	}
}

func TestScriptsLeaveStrangersAlone(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		ctx := d.Context()
		strangers := map[string]func(key string) error{
			"string": func(key string) error { return d.Redis.Set(ctx, key, "theirs", 0).Err() },
			"list":   func(key string) error { return d.Redis.RPush(ctx, key, "theirs").Err() },
			"set":    func(key string) error { return d.Redis.SAdd(ctx, key, "theirs").Err() },
			"hash":   func(key string) error { return d.Redis.HSet(ctx, key, "id", "theirs").Err() },
		}
		for kind, put := range strangers {
			for _, key := range []string{d.Keys.Holder(), d.Keys.Queue(), d.Keys.Fence()} {
				if err := put(key); err != nil {
					d.Fatal(err)
				}
				before := d.Redis.Dump(ctx, key).Val()
				for _, try := range []bool{false, true} {
					if _, err := d.AcquireOnce(scripttest.Acquire{ID: "a", Try: try}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
						d.Errorf("a %s at %s: acquire answered %v", kind, key, err)
					}
				}
				if key == d.Keys.Holder() {
					a := scripttest.ID("a")
					_ = d.Send(&script.Cancel{Keys: d.Keys, ID: "a"})
					_ = d.Send(&script.Release{Keys: d.Keys, ID: a})
					_ = d.Send(&script.Renew{Keys: d.Keys, ID: a, Lease: time.Second})
				}
				if after := d.Redis.Dump(ctx, key).Val(); after != before {
					d.Errorf("the %s at %s was changed", kind, key)
				}
				if ttl := d.Redis.PTTL(ctx, key).Val(); ttl > 0 {
					d.Errorf("the %s at %s will expire in %v", kind, key, ttl)
				}
				d.Redis.Del(ctx, key)
			}
		}
	})
}

func TestEverythingButTheCounterExpires(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		ctx := d.Context()
		d.Lock("a")
		d.Lock("b")
		d.Beat("b", true)
		d.Cancel("c")
		keys := d.Redis.Keys(ctx, "*").Val()
		if len(keys) < 5 {
			d.Fatalf("only %q", keys)
		}
		for _, key := range keys {
			if ttl := d.Redis.PTTL(ctx, key).Val(); ttl <= 0 && key != d.Keys.Fence() {
				d.Errorf("%s never expires", key)
			}
		}
		d.Release("a")
		d.Release("b")
		d.Redis.Del(ctx, d.Keys.Done("c"))
		if keys := d.Redis.Keys(ctx, "*").Val(); len(keys) != 2 || d.Redis.Exists(ctx, d.Keys.Fence(), d.Keys.Alive()).Val() != 2 {
			d.Errorf("left behind: %q", keys)
		}
	})
}

func TestWithFullMemoryOnlyAcquiringFails(t *testing.T) {
	d := scripttest.New(t, redistest.Lent(t).NewClient(t), t.Name())
	ctx := d.Context()
	d.Lock("a")
	d.Lock("b")
	d.Lock("c")
	if err := d.Redis.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for _, try := range []bool{false, true} {
		if _, err := d.AcquireOnce(scripttest.Acquire{ID: "d", Try: try}); !try && (err == nil || !strings.Contains(err.Error(), "OOM")) {
			t.Errorf("acquire of a held lock: %v, want OOM", err)
		}
	}
	d.WantRenewed("renewal", d.Renew("a", time.Minute), scripttest.Contended)
	d.Want("poll", d.PollOne("c"), script.Queued)
	d.Cancel("c")
	d.Want("hand-over", d.HandOver("a", "a2").Outcome, script.Queued)
	d.WantHolder("b")
	d.Want("release", d.ReleaseMarked("b"), script.Done)
	d.WantHolder("a2")
	d.Want("release", d.Release("a2"), script.Done)
	if _, err := d.AcquireOnce(scripttest.Acquire{ID: "e"}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("acquire of a free lock: %v, want OOM", err)
	}
}

func TestAMinimumHoldThatIsOverAtOnceLeavesNothing(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		id := scripttest.ID("a").String()
		if answer, err := d.Eval("release", d.SixKeys(), id, -1); err != nil || answer != int64(1) {
			d.Errorf("release: %v, %v", answer, err)
		}
		d.WantHolder("")
	})
}
