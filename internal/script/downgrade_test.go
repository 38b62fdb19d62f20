package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestDowngradeAdmitsAllWhoWaitToRead(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		heard := d.Hear()
		token := d.Write("w").Grant.Token
		d.Read("r1")
		d.Write("v")
		d.Read("r2") // behind a writer
		d.Write("u")
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		d.WantReaders("w", "r1", "r2")
		all := d.Poll("w", "r1", "r2", "v", "u").Tickets
		for i, got := range all {
			if i < 3 && (got.Outcome != script.Held || got.Grant.Token != token || got.Grant.Waiting != 2) || i >= 3 && got.Outcome != script.Queued {
				d.Errorf("number %d got %+v", i, got)
			}
		}
		number, _ := d.Look().Counter()
		var want []string
		for _, id := range []string{"r1", "r2"} {
			want = append(want, fmt.Sprintf("%s: grant %s %d %d 1 2 %s", id, id, number, token, d.Keys.Holder()))
		}
		if got := heard(); !slices.Equal(got, want) {
			d.Errorf("published: %q, want %q", got, want)
		}
		d.WantRenewed("renewal", d.Renew("w", time.Minute), scripttest.Contended)
		d.WantQueued("a reader that comes later", d.Read("late"), 1, 3)
		d.Release("r1")
		d.Release("w")
		d.WantReaders("r2")
		d.Release("r2")
		d.WantWriter("v")
	})
}

func TestDowngradeWithNobodyWaiting(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for _, mode := range []core.Mode{core.Write, core.Exclusive, core.Fair} {
			id := mode.String()
			d.Acquire(scripttest.Acquire{ID: id, Mode: mode, Lease: time.Hour, Trace: "00-trace"})
			before := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val()
			d.Want("downgrade", d.Downgrade(id), script.Done)
			sc := d.Look()
			r := sc.Readers()[id]
			if r.Owner != "owner-"+id || r.Inbox != "lockmw:inbox:"+id || r.Trace != "00-trace" || sc.Holder.Fields["wanted"] != "0" {
				d.Errorf("the server has %v", sc)
			}
			if left := r.Ends.Sub(sc.Now); left > before || left < before-2*time.Second {
				d.Errorf("the lease is %v, it was %v", left, before)
			}
			d.WantHeld("a reader beside it", d.TryRead("r"))
			if got := d.Acquire(scripttest.Acquire{ID: "try", Mode: core.Write, Try: true}); got.Outcome != script.Queued {
				d.Errorf("a writer's try: %+v", got)
			}
			d.WantRenewed("renewal", d.Renew(id, 2*time.Hour), scripttest.Renewed)
			d.Want("release", d.Release(id), script.Done)
			d.WantReaders("r")
			d.Release("r")
			d.WantNothingLeft()
		}
	})
}

// With the last token of a block the readers are not behind any hold that was made of it.
func TestDowngradeOfABlockOfTokens(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		scripttest.PassToken(d.T, d.Write("before").Grant.Token) // so that there may be several
		d.Release("before")
		got := d.Acquire(scripttest.Acquire{ID: "w", Tokens: 40})
		if got.Outcome != script.Held || got.Grant.Tokens < 2 {
			d.Fatalf("%+v", got)
		}
		last := got.Grant.Token + got.Grant.Tokens - 1
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		if read := d.Read("r"); read.Grant.Token != last {
			d.Errorf("readers have token %d, want %d", read.Grant.Token, last)
		}
		d.Write("v")
		d.Release("w")
		d.Release("r")
		if all := d.Poll("v").Tickets; all[0].Grant.Token <= last {
			d.Errorf("the next writer has token %d after %d", all[0].Grant.Token, last)
		}
	})
}

func TestDowngradeIsHarmlessWhenRepeated(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		d.Read("r")
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		d.PollOne("r")
		d.Write("v")
		d.Read("s") // comes later
		before := d.Look()
		for range 2 {
			d.Want("downgrade, repeated", d.Downgrade("w"), script.Done)
			if after := d.Look(); !after.Holder.Same(&before.Holder) || !after.ReadQueue.Same(&before.ReadQueue) || after.Holder.TTL > before.Holder.TTL {
				d.Errorf("repeated, it changed %v to %v", before, after)
			}
		}
		d.Release("w")
		d.Want("downgrade after the release", d.Downgrade("w"), script.NotHeld)
		d.WantReaders("r")
		d.Release("r")
		d.WantWriter("v")
		d.Want("downgrade while another one writes", d.Downgrade("w"), script.NotHeld)
		d.Want("by one that waits", d.Downgrade("s"), script.NotHeld)
		d.WantWriter("v")
		d.Cancel("s")
		d.Release("v")
		d.Want("downgrade of a free lock", d.Downgrade("v"), script.NotHeld)
		d.WantNothingLeft()
	})
}

// The acquire of a hold that is downgraded already.
func TestALateWriteAfterTheDowngrade(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		token := d.Write("w").Grant.Token
		d.Downgrade("w")
		d.Read("r")
		got := d.Write("w")
		d.WantReaders("w", "r")
		if got.Outcome != script.Held || got.Grant.Token != token {
			d.Errorf("a late copy: %+v", got)
		}
		if sc := d.Look(); sc.Queue.Exists() {
			d.Errorf("it waits: %v", sc)
		}
	})
}

func TestDowngradeAdmitsManyInSeveralRuns(t *testing.T) {
	scripttest.OnEachCrowded(t, func(d *scripttest.Driver) {
		d.Write("w")
		all := scripttest.IDs("r", 300)
		d.Queue(false, all...)
		d.Write("v")
		d.Want("downgrade", d.Downgrade("w"), script.More)
		d.Want("repeated", d.Downgrade("w"), script.Done)
		d.WantReaders(append([]string{"w"}, all[:script.MaxAdmitted]...)...)
		d.Release("w")
		d.Tidy = false
		for _, id := range all[:script.MaxAdmitted] { // they are fast
			d.Release(id)
		}
		d.Tidy = true
		d.Settle()
		d.WantReaders(all[script.MaxAdmitted:]...)
		d.WantWriter("")
	})
}

// A process that is killed right after it leaves the readers their holds, and writers wait no longer than
// its lease.
func TestADowngradedHoldExpires(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Lease: 2 * time.Second})
		d.Read("r")
		d.Write("v")
		later(500 * time.Millisecond)
		d.Downgrade("w")
		d.PollOne("r") // accepts
		later(1600 * time.Millisecond)
		d.Want("poll of the writer", d.PollOne("v"), script.Queued)
		d.WantReaders("r")
		d.WantRenewed("renewal of what has expired", d.Renew("w", time.Minute), scripttest.NotRenewed)
		d.Want("downgrade of what has expired", d.Downgrade("w"), script.NotHeld)
		d.Release("r")
		d.WantWriter("v")
	})
}

func TestAStrangerDoesNotEndADowngradedHold(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for where, key := range places(d) {
			for kind, put := range strangers(d) {
				if where == "holder" || key.couldHave(kind) {
					continue
				}
				d.Redis.FlushAll(d.Context())
				d.Write("w")
				d.Read("r")
				d.Redis.Del(d.Context(), key.name)
				if err := put(key.name); err != nil {
					d.Fatal(err)
				}
				for range 2 {
					_ = d.Send(&script.Downgrade{Keys: d.Keys, ID: scripttest.ID("w")})
				}
				if !d.Look().Has("w") {
					d.Errorf("a %s at the %s: the hold is gone", kind, where)
				}
				if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl <= 0 || ttl > scripttest.Lease {
					d.Errorf("a %s at the %s: the hold expires in %v", kind, where, ttl)
				}
			}
		}
	})
}

// A lock whose TTL somebody took off is not one of a millisecond.
func TestDowngradeOfAKeyWithoutTTLLastsUntilTheNextRenewal(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Write("w")
		if err := d.Redis.Persist(d.Context(), d.Keys.Holder()).Err(); err != nil {
			d.Fatal(err)
		}
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		later(time.Second)
		d.WantRenewed("renewal", d.Renew("w", time.Minute), scripttest.Renewed)
		later(30 * time.Second)
		d.WantReaders("w")
	})
}
