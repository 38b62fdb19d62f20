package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// onFullMemory prepares a lock, and then has a server whose memory is full.
func onFullMemory(t *testing.T, name string, prepare, test func(d *desk)) {
	t.Run(name, func(t *testing.T) {
		d := newDesk(t, redistest.Redis(t))
		d.tidy = true
		prepare(d)
		if err := d.rdb.ConfigSet(d.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		test(d)
	})
}

// The server refuses what needs memory. Whoever has something must be able to keep it and to leave, and those
// who wait must be able to follow.
func TestWithFullMemoryOnlyNewReadersAreRefused(t *testing.T) {
	const name = "lockmw:inbox" // any text
	refused := func(d *desk, what string, a ask) {
		d.Helper()
		a.id = "new"
		before := d.look()
		if got, err := d.ask(a); err == nil || !strings.Contains(err.Error(), "OOM") {
			d.Errorf("%s: %+v, %v, want OOM", what, got, err)
		}
		after := d.look()
		for part, p := range after.parts() {
			if !p.same(before.parts()[part]) {
				d.Errorf("%s, which was refused, changed the %s: %v", what, part, p)
			}
		}
	}
	everybodyIsRefused := func(d *desk) {
		d.Helper()
		refused(d, "a reader", ask{mode: core.Read, trace: name})
		refused(d, "a writer", ask{mode: core.Write})
		refused(d, "one whose place is kept", ask{mode: core.Fair, ticket: "t", keep: time.Minute})
		refused(d, "a try whose place is kept", ask{mode: core.Fair, try: true, ticket: "t", keep: time.Minute})
	}

	onFullMemory(t, "free", func(d *desk) { d.read("a"); d.release("a", 0) }, everybodyIsRefused)
	onFullMemory(t, "read", func(d *desk) { d.read("a") }, func(d *desk) {
		everybodyIsRefused(d)
		refused(d, "a try to read beside others", ask{mode: core.Read, try: true})
		d.wantKind("release", d.release("a", doneTTL), 1)
		d.wantReaders()
	})
	onFullMemory(t, "read, and waited for", func(d *desk) {
		d.read("a")
		d.read("b")
		d.write("w")
		d.read("r")
		d.read("s")
	}, func(d *desk) {
		everybodyIsRefused(d)
		ends := d.ends("a")
		d.wantKind("renewal", d.renew("a", time.Hour), 2)
		if got := d.ends("a"); got.Sub(ends) < time.Hour-2*askedLease {
			d.Errorf("renewed for an hour, it ends at %v instead of %v", got, ends)
		}
		all, _ := d.polls("a", "w", "r", "gone")
		if all[0].kind != 1 || all[1].kind != 0 || all[2].kind != 0 || all[3].kind != -1 {
			d.Errorf("poll: %+v", all)
		}
		d.wantKind("release of one", d.release("b", 0), 1)
		d.cancel("w")
		d.wantReaders("a", "r", "s")
		d.wantKind("poll of one that was let in", d.poll("r"), 1)
		d.wantKind("downgrade, repeated", d.downgrade("r"), 1)
		d.cancel("r")
		d.wantKind("force", d.force(d.tokenOf(), "owner-s"), 1)
		d.wantReaders("a")
	})
	onFullMemory(t, "written, and waited for", func(d *desk) {
		d.write("w")
		d.read("r")
		d.read("s")
		d.write("v")
		d.keeps("f", "t", time.Minute)
	}, func(d *desk) {
		d.wantKind("release", d.release("w", 0), 1)
		d.wantReaders("r", "s")
		d.wantKind("poll", d.poll("r"), 1)
		d.release("r", 0)
		d.wantKind("release of the last one", d.release("s", doneTTL), 1)
		d.wantWriter("v")
		d.wantKind("cancel of one whose place is kept", d.goesAway("f", "t", time.Minute), 1)
		if d.rdb.Exists(d.Context(), d.name.kept("t")).Val() == 0 {
			d.Error("the place is not kept")
		}
		d.wantKind("release", d.release("v", 0), 1)
		d.wantNothingLeft()
	})
	onFullMemory(t, "to be downgraded", func(d *desk) {
		d.write("w")
		d.write("v")
		d.read("r")
	}, func(d *desk) {
		d.wantKind("downgrade", d.downgrade("w"), 1)
		d.wantReaders("w", "r")
		d.wantKind("repeated", d.downgrade("w"), 1)
		d.wantKind("renewal", d.renew("w", time.Minute), 2)
	})
	onFullMemory(t, "read by one that has expired", func(d *desk) {
		d.read("a")
		d.read("b")
		d.write("w")
		d.read("r")
		d.expire("a")
	}, func(d *desk) {
		d.wantKind("poll of a writer", d.poll("w"), 0)
		d.wantReaders("b")
		d.wantKind("release of the other", d.release("b", 0), 1)
		d.wantWriter("w")
	})
}

// That a reader's time was to be over, had it not been renewed, is noted on the way.
func TestWithFullMemoryReadersAreLookedThrough(t *testing.T) {
	for what, run := range map[string]func(d *desk) int64{
		"poll":      func(d *desk) int64 { all, _ := d.polls("a"); return all[0].kind },
		"downgrade": func(d *desk) int64 { return d.downgrade("a") },
		"force":     func(d *desk) int64 { return d.force(d.tokenOf(), "owner-b") },
		"release":   func(d *desk) int64 { return d.release("b", 0) },
		"renewal":   func(d *desk) int64 { return d.renew("a", time.Minute) - 1 },
		"cancel":    func(d *desk) int64 { d.cancel("b"); return 1 },
	} {
		onFullMemory(t, what, func(d *desk) {
			d.read("a")
			d.read("b")
			d.write("w")
			d.rdb.HSet(d.Context(), d.name.holder, "next", d.look().now.Add(-time.Second).UnixMilli())
		}, func(d *desk) {
			d.wantKind(what, run(d), 1)
			if _, reads := d.look().readers()["a"]; !reads {
				d.Errorf("a reads no longer: %v", d.look())
			}
		})
	}
}
