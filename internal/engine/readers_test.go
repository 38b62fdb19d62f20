package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestReadersShareALock(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		first := d.read("a")
		d.wantHeld("a", first)
		for _, id := range []string{"b", "c"} {
			if got := d.read(id); got.kind != 1 || got.token != first.token || got.others != 0 {
				d.Errorf("%s: %+v, want %+v as for a", id, got, first)
			}
		}
		d.wantHeld("a try", d.tryRead("d"))
		d.wantReaders("a", "b", "c", "d")
		d.asks(ask{id: "e", mode: core.Read, trace: "00-trace"})
		now := d.look()
		if r := now.readers()["e"]; r.owner != "owner-e" || r.inbox != "lockmw:inbox:e" || r.trace != "00-trace" ||
			max(now.now.Sub(time.UnixMicro(r.since)), time.UnixMicro(r.since).Sub(now.now)) > soon {
			d.Errorf("the server has of e: %+v", r)
		}
		if token, _ := now.holder.whole("token"); token != first.token {
			d.Errorf("the phase has token %d, its readers %d", token, first.token)
		}
	})
}

func TestReadersExcludeWriters(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.read("b")
		for i, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write} {
			if got := d.asks(ask{id: "try", mode: mode, try: true}); got.kind != 0 || got.position != 0 || got.total != int64(i) {
				d.Errorf("a try for a lock of the mode %s: %+v", mode, got)
			}
			d.wantQueued(mode.String(), d.asks(ask{id: fmt.Sprint("w", i), mode: mode}), int64(i+1), int64(i+1))
		}
		d.wantKind("release of one reader", d.release("a", 0), 1)
		d.wantReaders("b")
		d.wantKind("release of the last one", d.release("b", 0), 1)
		if id := d.look().holds(); id != "w0" {
			d.Errorf("%q has the lock, want the first in the queue", id)
		}
	})
}

// Whoever holds it exclusively, in whatever mode.
func TestReadersAreExcluded(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write} {
			id := mode.String()
			d.wantHeld(id, d.asks(ask{id: id, mode: mode}))
			if got := d.tryRead("try"); got.kind != 0 || got.position != 0 || got.total != 0 || len(got.holders) != 1 || got.holders[0].Owner != "owner-"+id {
				d.Errorf("a try beside a lock of the mode %s: %+v", mode, got)
			}
			reader := "r-" + id
			d.wantQueued(reader, d.read(reader), 1, 1)
			d.wantKind("release", d.release(id, 0), 1)
			d.wantReaders(reader)
			d.wantKind("release", d.release(reader, 0), 1)
		}
		d.wantNothingLeft()
	})
}

// A read hold has the token of the writer before it, or at least one that is between it and the next.
func TestReadersHaveATokenBetweenTheWriters(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		counter := func() int64 {
			last, ok := d.look().counter()
			if !ok {
				d.Fatal("no counter")
			}
			return last
		}
		first := d.read("r1") // without a counter
		if first.token < 1 || counter() < first.token {
			d.Errorf("the first reader has token %d, and the counter is %d", first.token, counter())
		}
		d.release("r1", 0)
		last := first.token
		for i := range 3 {
			w, r, s := fmt.Sprint("w", i), fmt.Sprint("r", i), fmt.Sprint("s", i)
			write := d.write(w)
			if write.token <= last {
				d.Errorf("%s has token %d after %d", w, write.token, last)
			}
			d.read(r) // let in by the release
			d.release(w, 0)
			polled, _ := d.polls(r)
			read := d.read(s)
			if polled[0].token != write.token || read.token != write.token {
				d.Errorf("readers have tokens %d and %d after a writer with %d", polled[0].token, read.token, write.token)
			}
			last = max(write.token, read.token, counter())
			d.release(r, 0)
			d.release(s, 0)
		}
		again := d.read("r9") // begins a phase on a free lock
		if again.token > counter() || again.token < last {
			d.Errorf("a reader of a free lock has token %d, and the counter is %d", again.token, counter())
		}
		d.write("w9") // waits
		d.release("r9", 0)
		if polled, _ := d.polls("w9"); polled[0].token <= max(again.token, last) {
			d.Errorf("the writer after the readers has token %d after %d", polled[0].token, again.token)
		}
	})
}

func TestAPhaseKeepsItsTokenWhenTheCounterIsLost(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		token := d.read("a").token
		passToken(d.T, token)
		d.rdb.Del(d.Context(), d.name.fence.(string))
		d.tidy = false // there is none until a writer comes
		if got := d.read("b"); got.token != token {
			d.Errorf("a reader of the same phase has token %d, want %d", got.token, token)
		}
		d.write("w")
		d.release("a", 0)
		d.release("b", 0)
		if polled, _ := d.polls("w"); polled[0].token <= token {
			d.Errorf("the writer after them has token %d after %d", polled[0].token, token)
		}
	})
}

func TestReadersNeverChangeEachOthersLeases(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		const long, short = 10 * time.Minute, 3 * time.Second
		keyLasts := func(what string, want time.Duration) {
			d.Helper()
			if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl > want || ttl < want-2*time.Second {
				d.Errorf("%s: the key lasts %v, want %v", what, ttl, want)
			}
		}
		unchanged := func(what, id string, want time.Time) {
			d.Helper()
			if got := d.ends(id); !got.Equal(want) {
				d.Errorf("%s: the hold of %s ends at %v, want %v", what, id, got, want)
			}
		}
		d.asks(ask{id: "a", mode: core.Read, lease: long})
		d.asks(ask{id: "b", mode: core.Read, lease: short})
		a, b := d.ends("a"), d.ends("b")
		if lasts := a.Sub(b); lasts < long-short-time.Second || lasts > long-short+time.Second {
			d.Errorf("with leases of %v and %v they end %v apart", long, short, lasts)
		}
		keyLasts("a shorter lease", long)
		d.wantKind("renewal of a for less", d.renew("a", time.Second), 1)
		unchanged("a renewal for less", "a", a)
		d.wantKind("renewal of b", d.renew("b", time.Minute), 1)
		unchanged("another's renewal", "a", a)
		if got := d.ends("b"); got.Sub(b) < time.Minute-2*short {
			d.Errorf("b ends at %v after a renewal for a minute, before it at %v", got, b)
		}
		keyLasts("a shorter renewal", long)
		d.wantKind("renewal of b for more", d.renew("b", 2*long), 1)
		unchanged("another's longer renewal", "a", a)
		keyLasts("a longer renewal", 2*long)
		b = d.ends("b")
		d.asks(ask{id: "c", mode: core.Read, lease: time.Second})
		unchanged("a third one", "a", a)
		unchanged("a third one", "b", b)
		d.release("c", 0)
		d.release("b", 0)
		unchanged("another's release", "a", a)
	})
}

func TestExpiredReadersArePruned(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.asks(ask{id: "a", mode: core.Read, lease: time.Second})
		d.asks(ask{id: "b", mode: core.Read, lease: 10 * time.Second})
		d.asks(ask{id: "c", mode: core.Read, lease: 5 * time.Second})
		d.write("w")
		field := func(id string) bool { return d.rdb.HExists(d.Context(), d.name.holder, "reader:"+id).Val() }
		next := func(want time.Duration) {
			d.Helper()
			sc := d.look()
			if ms, _ := sc.holder.whole("next"); time.UnixMilli(ms).Sub(sc.now).Round(10*time.Millisecond) != want {
				d.Errorf("the next look at the readers is in %v, want %v", time.UnixMilli(ms).Sub(sc.now), want)
			}
		}
		next(time.Second)
		later(1500 * time.Millisecond)
		d.wantKind("renewal of an expired reader", d.renew("a", time.Minute), 0)
		d.wantKind("poll of the writer", d.poll("w"), 0)
		if field("a") || !field("b") || !field("c") {
			d.Errorf("after a's time: %v", d.look())
		}
		next(3500 * time.Millisecond)
		d.wantKind("renewal", d.renew("c", 5*time.Second), 2)
		later(4 * time.Second) // c's time would be over, had it not been renewed
		d.wantKind("poll of the writer", d.poll("w"), 0)
		d.wantReaders("b", "c")
		next(time.Second)
		later(2 * time.Second)
		d.poll("w")
		d.wantReaders("b")
		later(3 * time.Second)
		d.wantKind("poll of the writer when all are over", d.poll("w"), 1)
		d.wantWriter("w")
	})
}

// A reader whose time is over is none, even if nobody has looked yet.
func TestAnExpiredReaderHasNothing(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		for what, run := range map[string]func() int64{
			"renewal":   func() int64 { return d.renew("a", time.Minute) },
			"downgrade": func() int64 { return d.downgrade("a") },
			"poll":      func() int64 { return max(d.poll("a"), 0) },
		} {
			d.read("a")
			d.read("b")
			d.expire("a")
			d.wantKind(what, run(), 0)
			d.wantReaders("b")
			d.release("a", 0)
		}
		d.expire("b") // the last one
		d.wantHeld("a writer", d.write("w"))
		d.wantReaders()
	})
}

// Waiting readers stand behind a writer only as long as that lives.
func TestReadersDoNotWaitForADeadWriter(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.read("a")
		d.write("dead")
		d.wantQueued("b", d.read("b"), 1, 2)
		for range 5 {
			later(pollInterval)
			d.renew("a", time.Minute)
			d.poll("b")
		}
		d.wantReaders("a", "b")
		d.wantKind("renewal when nobody waits any more", d.renew("a", time.Minute), 1)
		d.wantHeld("another reader", d.tryRead("c"))
	})
}

func TestPositionsAreThoseInTheQueue(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.wantQueued("w1", d.write("w1"), 1, 1)
		d.wantQueued("r1", d.read("r1"), 1, 2)
		d.wantQueued("r2", d.read("r2"), 2, 3)
		second := d.write("w2")
		if second.kind != 0 || second.position < 2 || second.position > 4 || second.total != 4 {
			d.Errorf("the second writer: %+v", second)
		}
		places := make([]int64, 0, 4)
		for _, id := range []string{"w1", "r1", "r2", "w2"} {
			places = append(places, d.asks(ask{id: id, mode: map[byte]core.Mode{'w': core.Write, 'r': core.Read}[id[0]]}).place)
		}
		if !slices.IsSorted(places) || len(slices.Compact(slices.Clone(places))) != 4 {
			d.Errorf("the places are %d", places)
		}
		if got := d.tryRead("try"); got.position != 0 || got.total != 4 {
			d.Errorf("a try: %+v", got)
		}
		all, _ := d.polls("w1", "r1", "r2", "w2", "gone", "a")
		for i, want := range []int64{1, 1, 2, second.position} {
			if all[i].kind != 0 || all[i].position != want || all[i].total != 4 {
				d.Errorf("poll of ticket %d: %+v, want position %d of 4", i, all[i], want)
			}
		}
		if all[4].kind != -1 || all[5].kind != 1 || all[5].others != 2 {
			d.Errorf("poll of a stranger and of a reader: %+v, %+v", all[4], all[5])
		}
	})
}

// A poll that passes the lock on tells the others where they stand then.
func TestAPollTellsThePositionsThatItLeaves(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("held")
		for _, id := range []string{"a", "b", "c"} {
			d.write(id)
		}
		d.read("r")
		d.read("s")
		d.rdb.Del(d.Context(), d.name.holder) // its lease ran out
		all, _ := d.polls("b", "c", "r")
		for i, position := range []int64{1, 2, 1} {
			if all[i].kind != 0 || all[i].position != position || all[i].total != 4 {
				d.Errorf("number %d is told %+v, want position %d of 4", i, all[i], position)
			}
		}
	})
}

// A caller is told of all who are in the way, if they are not many.
func TestWhoReadsIsTold(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		const most = shownHolders
		for i := range most {
			d.asks(ask{id: fmt.Sprint("r", i), mode: core.Read, trace: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"})
			got := d.asks(ask{id: "w", mode: core.Write, try: true})
			owners := make([]string, 0, most)
			for _, h := range got.holders {
				owners = append(owners, h.Owner)
			}
			slices.Sort(owners)
			if len(slices.Compact(owners)) != i+1 {
				d.Errorf("of %d readers it is told of %q", i+1, owners)
			}
		}
		token := d.read("more").token
		got := d.asks(ask{id: "w", mode: core.Write})
		if n := len(got.holders); n < 1 || n > most {
			d.Errorf("of %d readers it is told of %d", most+1, n)
		}
		for _, h := range got.holders {
			if h.Token != token || h.Since.IsZero() || h.TTL <= 0 || h.TTL > askedLease {
				d.Errorf("a reader: %+v", h)
			}
		}
	})
}

// A minimum hold is shorter than the lease was, and still that of the one who has left.
func TestAReaderThatLeftLateIsShownAsLongAsItStays(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.wantHeld("a", d.read("a"))
		if kind := d.run(d.scripts.release, d.keys(), "a", 1000, 0, 0).int(); kind != 1 {
			d.Fatalf("release answers %d", kind)
		}
		got := d.asks(ask{id: "w", mode: core.Write})
		if len(got.holders) != 1 || got.holders[0].TTL > time.Second || got.holders[0].Owner != "owner-a" {
			d.Errorf("in the way are %+v, want owner-a for a second", got.holders)
		}
	})
}
