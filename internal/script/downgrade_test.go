package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

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

// With the last token of a block, the readers have no smaller token than any hold that used the block.
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
				if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl <= 0 || ttl > scripttest.Lease+5*time.Millisecond {
					d.Errorf("a %s at the %s: the hold expires in %v", kind, where, ttl)
				}
			}
		}
	})
}

// A lock whose TTL was removed by hand does not become a lock of one millisecond.
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
