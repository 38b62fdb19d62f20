package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestAcquireAnswersTheSameWhenRepeated(t *testing.T) {
	onDesk(t, func(d *desk) {
		_, first := d.acquire("a", "wait")
		kind, again := d.acquire("a", "wait")
		if kind != 1 || again != first {
			d.Errorf("the second run answered %d with token %d, want 1 with %d", kind, again, first)
		}
		for range 2 {
			kind, _ = d.acquire("b", "wait")
			d.wantKind("acquire of a held lock", kind, 0)
		}
		if n := d.rdb.ZCard(d.Context(), d.name.queue()).Val(); n != 1 {
			d.Errorf("%d tickets after two runs of one acquire, want 1", n)
		}
	})
}

func TestAcquireAfterItsCancelIsRefused(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.cancel("a") // overtakes
		for _, mode := range []string{"wait", "try"} {
			kind, _ := d.acquire("a", mode)
			d.wantKind("acquire", kind, -1)
		}
		d.wantHolder("")
	})
}

func TestAcquireAfterAMarkedReleaseIsRefused(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.release("a", doneTTL)
		kind, _ := d.acquire("a", "wait")
		d.wantKind("a late copy of acquire", kind, -1)
		d.wantHolder("")
	})
}

func TestReleaseFreesOnlyItsOwnID(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.wantKind("release", d.release("a", 0), 1)
		d.acquire("b", "wait")
		d.wantKind("a late copy of release", d.release("a", 0), 0)
		d.wantKind("a late renewal", d.renew("a", time.Hour), 0)
		d.cancel("a")
		d.wantHolder("b")
		if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl > 30*time.Second {
			d.Errorf("the next holder's lease is %v now", ttl)
		}
	})
}

func TestReleaseGrantsToTheHeadOfTheQueue(t *testing.T) {
	onDesk(t, func(d *desk) {
		_, before := d.acquire("a", "wait")
		for _, id := range []string{"b", "c"} {
			d.acquire(id, "wait")
		}
		d.release("a", 0)
		d.wantHolder("b")
		if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl > acceptWindow {
			d.Errorf("a grant that nobody has accepted lasts %v", ttl)
		}
		d.wantKind("poll of the new holder", d.poll("b"), 1)
		if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl <= acceptWindow {
			d.Errorf("a grant that was answered lasts %v, want the lease", ttl)
		}
		_, token := d.acquire("b", "wait")
		if token <= before {
			d.Errorf("token %d after %d", token, before)
		}
		d.wantKind("poll of the other", d.poll("c"), 0)
	})
}

func TestNobodyTakesAFreeLockFromALiveTicket(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.acquire("b", "wait")
		d.rdb.Del(d.Context(), d.name.holder) // its lease ran out
		kind, _ := d.acquire("c", "try")
		d.wantKind("try", kind, 0)
		d.wantHolder("b")
	})
}

func TestAHolderThatExpiresIsSucceeded(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.acquire("b", "wait")
		d.rdb.Del(d.Context(), d.name.holder)
		d.wantKind("poll", d.poll("b"), 1)
	})
}

func TestHandOver(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a1", "wait")
		d.acquire("b", "wait")
		for range 2 { // its reply was lost
			d.wantKind("hand-over", d.handOver("a1", "a2"), 0)
			d.wantHolder("b")
		}
		d.release("b", 0)
		d.wantHolder("a2")
		d.wantKind("hand-over with nobody waiting", d.handOver("a2", "a3"), 1)
		d.wantHolder("a3")
	})
}

func TestHandOverToACancelledIDStillReleases(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a1", "wait")
		d.acquire("b", "wait")
		d.cancel("a2")
		d.wantKind("hand-over", d.handOver("a1", "a2"), -1)
		d.wantHolder("b")
	})
}

func TestRenewalNeverShortensALease(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.wantKind("renewal", d.renew("a", time.Second), 1)
		if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl < 20*time.Second {
			d.Errorf("%v are left of the lease of 30 s", ttl)
		}
	})
}

func TestReleaseCanKeepTheKeyTaken(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.wantKind("release", d.run(d.scripts.release, d.keys(), "a", 5000, 0, 0).int(), 1)
		d.wantKind("a late copy", d.run(d.scripts.release, d.keys(), "a", 0, 0, 0).int(), 0)
		kind, _ := d.acquire("b", "try")
		d.wantKind("try", kind, 0)
		if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl <= 0 || ttl > 5*time.Second {
			d.Errorf("it stays taken for %v, want at most 5 s", ttl)
		}
	})
}

// The counter is in microseconds, so tokens above one must not be taken from the time to come.
func TestTokensIncreaseAndStayBehindTheClock(t *testing.T) {
	onDesk(t, func(d *desk) {
		last := int64(0)
		for i := range 200 {
			id := fmt.Sprint("id", i)
			r, err := d.request(id, "wait", "", 1+i%7*1000)
			if err != nil {
				d.Fatal(err)
			}
			lic := licence{count: 1}
			if token, ok := r.token(); ok {
				lic.first = token
			} else {
				r.int()
				lic = r.licence()
			}
			if r.err != nil || lic.first <= last {
				d.Fatalf("%d tokens from %d after %d: %v", lic.count, lic.first, last, r.err)
			}
			last = lic.first + lic.count - 1
			now := d.rdb.Time(d.Context()).Val().UnixMicro()
			if lic.count > 1 && last > now {
				d.Fatalf("token %d is %d µs ahead of the server's clock", last, last-now)
			}
			d.release(id, 0)
			if i == 100 {
				d.rdb.Del(d.Context(), d.name.fence.(string)) // as after FLUSHALL
			}
		}
	})
}

func TestDeadTicketsArePassedOver(t *testing.T) {
	s := redistest.Mini(t)
	d := newDesk(t, s)
	now := time.Now()
	s.Mini.SetTime(now)
	d.acquire("a", "wait")
	for i := range 3 * budget {
		d.acquire(fmt.Sprint("dead", i), "wait")
	}
	for at := now; at.Sub(now) < 3*pollInterval+time.Second; at = at.Add(pollInterval) {
		s.Mini.SetTime(at)
		d.acquire("alive", "wait")
	}
	d.wantKind("release", d.release("a", 0), 2)
	for range 4 {
		d.run(d.scripts.poll, d.keys(), "-")
	}
	d.wantHolder("alive")
}

func TestNobodyIsTakenForDeadAfterTheServerWasAway(t *testing.T) {
	s := redistest.Mini(t)
	d := newDesk(t, s)
	now := time.Now()
	s.Mini.SetTime(now)
	d.acquire("a", "wait")
	d.acquire("b", "wait")
	d.acquire("c", "wait")
	s.Mini.SetTime(now.Add(10 * time.Second))
	d.wantKind("poll of c", d.poll("c"), 0)
	d.release("a", 0)
	d.wantHolder("b")
}

func TestWhoWaitsIsNotReapedByTheFirstReleaseAfterTheServerWasAway(t *testing.T) {
	s := redistest.Mini(t)
	d := newDesk(t, s)
	now := time.Now()
	s.Mini.SetTime(now)
	for _, id := range []string{"a", "b", "c"} {
		d.acquire(id, "wait")
	}
	s.Mini.SetTime(now.Add(10 * time.Second))
	d.release("a", 0)
	d.wantHolder("b")
	d.wantKind("poll of c", d.poll("c"), 0)
}

func TestRenewalTellsWhetherOthersWait(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.acquire("a", "wait")
		d.wantKind("renewal", d.renew("a", time.Minute), 1)
		d.acquire("b", "wait")
		d.wantKind("renewal with a waiter", d.renew("a", time.Minute), 2)
	})
}

func TestScriptsLeaveStrangersAlone(t *testing.T) {
	onDesk(t, func(d *desk) {
		ctx := d.Context()
		strangers := map[string]func(key string) error{
			"string": func(key string) error { return d.rdb.Set(ctx, key, "theirs", 0).Err() },
			"list":   func(key string) error { return d.rdb.RPush(ctx, key, "theirs").Err() },
			"set":    func(key string) error { return d.rdb.SAdd(ctx, key, "theirs").Err() },
			"hash":   func(key string) error { return d.rdb.HSet(ctx, key, "id", "theirs").Err() },
		}
		for kind, put := range strangers {
			for _, key := range []string{d.name.holder, d.name.queue(), d.name.fence.(string)} {
				if err := put(key); err != nil {
					d.Fatal(err)
				}
				before := d.rdb.Dump(ctx, key).Val()
				for _, mode := range []string{"wait", "try"} {
					if _, err := d.request("a", mode, "", 1); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
						d.Errorf("a %s at %s: acquire answered %v", kind, key, err)
					}
				}
				if key == d.name.holder {
					_, _ = d.try(d.scripts.cancel, d.keys(), "a", 0, 0)
					_, _ = d.try(d.scripts.release, d.keys(), "a")
					_, _ = d.try(d.scripts.renew, d.keys()[:1], "a", 1000)
				}
				if after := d.rdb.Dump(ctx, key).Val(); after != before {
					d.Errorf("the %s at %s was changed", kind, key)
				}
				if ttl := d.rdb.PTTL(ctx, key).Val(); ttl > 0 {
					d.Errorf("the %s at %s will expire in %v", kind, key, ttl)
				}
				d.rdb.Del(ctx, key)
			}
		}
	})
}

func TestEverythingButTheCounterExpires(t *testing.T) {
	onDesk(t, func(d *desk) {
		ctx := d.Context()
		d.acquire("a", "wait")
		d.acquire("b", "wait")
		d.cancel("c")
		keys := d.rdb.Keys(ctx, "*").Val()
		if len(keys) < 5 {
			d.Fatalf("only %q", keys)
		}
		for _, key := range keys {
			if ttl := d.rdb.PTTL(ctx, key).Val(); ttl <= 0 && key != d.name.fence.(string) {
				d.Errorf("%s never expires", key)
			}
		}
		d.release("a", 0)
		d.release("b", 0)
		d.rdb.Del(ctx, d.name.done("c"))
		if keys := d.rdb.Keys(ctx, "*").Val(); len(keys) != 1 || keys[0] != d.name.fence.(string) {
			d.Errorf("left behind: %q", keys)
		}
	})
}

func TestWithFullMemoryOnlyAcquiringFails(t *testing.T) {
	s := redistest.Redis(t)
	d := newDesk(t, s)
	ctx := d.Context()
	d.acquire("a", "wait")
	d.acquire("b", "wait")
	d.acquire("c", "wait")
	if err := d.rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"wait", "try"} {
		if _, err := d.request("d", mode, "", 1); mode == "wait" && (err == nil || !strings.Contains(err.Error(), "OOM")) {
			t.Errorf("acquire (%s) of a held lock: %v, want OOM", mode, err)
		}
	}
	d.wantKind("renewal", d.renew("a", time.Minute), 2)
	d.wantKind("poll", d.poll("c"), 0)
	d.cancel("c")
	d.wantKind("hand-over", d.handOver("a", "a2"), 0)
	d.wantHolder("b")
	d.wantKind("release", d.release("b", doneTTL), 1)
	d.wantHolder("a2")
	d.wantKind("release", d.release("a2", 0), 1)
	if _, err := d.request("e", "wait", "", 1); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("acquire of a free lock: %v, want OOM", err)
	}
}
