package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestDowngradeLetsInAllWhoWaitToRead(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		heard := d.hear()
		token := d.write("w").token
		d.read("r1")
		d.write("v")
		d.read("r2") // behind a writer
		d.write("u")
		d.wantKind("downgrade", d.downgrade("w"), 1)
		d.wantReaders("w", "r1", "r2")
		all, _ := d.polls("w", "r1", "r2", "v", "u")
		for i, got := range all {
			if i < 3 && (got.kind != 1 || got.token != token || got.others != 2) || i >= 3 && got.kind != 0 {
				d.Errorf("number %d is told %+v", i, got)
			}
		}
		number, _ := d.look().counter()
		var want []string
		for _, id := range []string{"r1", "r2"} {
			want = append(want, fmt.Sprintf("%s: grant %s %d %d 1 2 %s", id, id, number, token, d.name.holder))
		}
		if got := heard(); !slices.Equal(got, want) {
			d.Errorf("published: %q, want %q", got, want)
		}
		d.wantKind("renewal", d.renew("w", time.Minute), 2)
		d.wantQueued("a reader that comes later", d.read("late"), 1, 3)
		d.release("r1", 0)
		d.release("w", 0)
		d.wantReaders("r2")
		d.release("r2", 0)
		d.wantWriter("v")
	})
}

func TestDowngradeWithNobodyWaiting(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		for _, mode := range []core.Mode{core.Write, core.Exclusive, core.Fair} {
			id := mode.String()
			d.asks(ask{id: id, mode: mode, lease: time.Hour, trace: "00-trace"})
			before := d.rdb.PTTL(d.Context(), d.name.holder).Val()
			d.wantKind("downgrade", d.downgrade(id), 1)
			sc := d.look()
			r := sc.readers()[id]
			if r.owner != "owner-"+id || r.inbox != "lockmw:inbox:"+id || r.trace != "00-trace" || sc.holder.fields["wanted"] != "0" {
				d.Errorf("the server has %v", sc)
			}
			if left := r.ends.Sub(sc.now); left > before || left < before-2*time.Second {
				d.Errorf("the lease is %v, it was %v", left, before)
			}
			d.wantHeld("a reader beside it", d.tryRead("r"))
			if got := d.asks(ask{id: "try", mode: core.Write, try: true}); got.kind != 0 {
				d.Errorf("a writer's try: %+v", got)
			}
			d.wantKind("renewal", d.renew(id, 2*time.Hour), 1)
			d.wantKind("release", d.release(id, 0), 1)
			d.wantReaders("r")
			d.release("r", 0)
			d.wantNothingLeft()
		}
	})
}

// With the last token of a block the readers are not behind any hold that was made of it.
func TestDowngradeOfABlockOfTokens(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		passToken(d.T, d.write("before").token) // so that there may be several
		d.release("before", 0)
		got := d.asks(ask{id: "w", tokens: 40})
		if got.kind != 1 || got.tokens < 2 {
			d.Fatalf("%+v", got)
		}
		last := got.token + got.tokens - 1
		d.wantKind("downgrade", d.downgrade("w"), 1)
		if read := d.read("r"); read.token != last {
			d.Errorf("readers have token %d, want %d", read.token, last)
		}
		d.write("v")
		d.release("w", 0)
		d.release("r", 0)
		if all, _ := d.polls("v"); all[0].token <= last {
			d.Errorf("the next writer has token %d after %d", all[0].token, last)
		}
	})
}

func TestDowngradeIsHarmlessWhenRepeated(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		d.read("r")
		d.wantKind("downgrade", d.downgrade("w"), 1)
		d.poll("r")
		d.write("v")
		d.read("s") // comes later
		before := d.look()
		for range 2 {
			d.wantKind("downgrade, repeated", d.downgrade("w"), 1)
			if after := d.look(); !after.holder.same(&before.holder) || !after.crowd.same(&before.crowd) || after.holder.ttl > before.holder.ttl {
				d.Errorf("repeated, it changed %v to %v", before, after)
			}
		}
		d.release("w", 0)
		d.wantKind("downgrade after the release", d.downgrade("w"), 0)
		d.wantReaders("r")
		d.release("r", 0)
		d.wantWriter("v")
		d.wantKind("downgrade while another one writes", d.downgrade("w"), 0)
		d.wantKind("by one that waits", d.downgrade("s"), 0)
		d.wantWriter("v")
		d.cancel("s")
		d.release("v", 0)
		d.wantKind("downgrade of a free lock", d.downgrade("v"), 0)
		d.wantNothingLeft()
	})
}

// The acquire of a hold that is downgraded already.
func TestALateWriteAfterTheDowngrade(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		token := d.write("w").token
		d.downgrade("w")
		d.read("r")
		got := d.write("w")
		d.wantReaders("w", "r")
		if got.kind != 1 || got.token != token {
			d.Errorf("a late copy: %+v", got)
		}
		if sc := d.look(); sc.queue.exists() {
			d.Errorf("it waits: %v", sc)
		}
	})
}

func TestDowngradeLetsInManyInSeveralRuns(t *testing.T) {
	onCrowdedDesk(t, func(d *desk) {
		d.write("w")
		all := ids("r", 300)
		d.queues(false, all...)
		d.write("v")
		d.wantKind("downgrade", d.downgrade("w"), 2)
		d.wantKind("repeated", d.downgrade("w"), 1)
		d.wantReaders(append([]string{"w"}, all[:manyReaders]...)...)
		d.release("w", 0)
		d.tidy = false
		for _, id := range all[:manyReaders] { // they are fast
			d.release(id, 0)
		}
		d.tidy = true
		d.settles()
		d.wantReaders(all[manyReaders:]...)
		d.wantWriter("")
	})
}

// A process that is killed right after it leaves the readers their holds, and writers wait no longer than
// its lease.
func TestADowngradedHoldExpires(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.asks(ask{id: "w", mode: core.Write, lease: 2 * time.Second})
		d.read("r")
		d.write("v")
		later(500 * time.Millisecond)
		d.downgrade("w")
		d.poll("r") // accepts
		later(1600 * time.Millisecond)
		d.wantKind("poll of the writer", d.poll("v"), 0)
		d.wantReaders("r")
		d.wantKind("renewal of what has expired", d.renew("w", time.Minute), 0)
		d.wantKind("downgrade of what has expired", d.downgrade("w"), 0)
		d.release("r", 0)
		d.wantWriter("v")
	})
}

func TestAStrangerDoesNotEndADowngradedHold(t *testing.T) {
	onDesk(t, func(d *desk) {
		for where, key := range d.places() {
			for kind, put := range d.strangers() {
				if where == "holder" || key.couldHave(kind) {
					continue
				}
				d.rdb.FlushAll(d.Context())
				d.write("w")
				d.read("r")
				d.rdb.Del(d.Context(), key.name)
				if err := put(key.name); err != nil {
					d.Fatal(err)
				}
				for range 2 {
					_, _ = d.try(d.scripts.downgrade, d.keys(), "w")
				}
				if !d.look().has("w") {
					d.Errorf("a %s at the %s: the hold is gone", kind, where)
				}
				if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl <= 0 || ttl > askedLease {
					d.Errorf("a %s at the %s: the hold expires in %v", kind, where, ttl)
				}
			}
		}
	})
}
