package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// changes returns how many changes of its data the server has counted.
func changes(d *scripttest.Driver) string {
	d.Helper()
	info, err := d.Redis.Info(d.Context(), "persistence").Result()
	if err != nil {
		d.Fatal(err)
	}
	_, after, found := strings.Cut(info, "rdb_changes_since_last_save:")
	if !found {
		d.Fatalf("the server does not count its changes: %s", info)
	}
	return after[:strings.IndexByte(after, '\r')]
}

// A copy of a script must also write, just as for a grant.
func TestARunThatSaysWhatBecameOfATickHasWritten(t *testing.T) {
	d := scripttest.New(t, redistest.Lent(t).NewClient(t), "job")
	d.WantHeld("the job", d.Acquire(scripttest.Acquire{ID: "a", Mode: core.Fair, Lease: time.Hour}))
	tick := tickNow()
	token := d.Token()
	for _, run := range []struct {
		what string
		run  func()
	}{
		{"begin", func() { wantBegun(d, "it", d.Begin("a", token, tick), core.TickBegun) }},
		{"mark", func() {
			if d.Mark(token, tick) {
				t.Error("another hold has begun it")
			}
		}},
	} {
		for copy := range 3 {
			before := changes(d)
			run.run()
			if changes(d) == before {
				t.Errorf("run %d of %s has written nothing", copy+1, run.what)
			}
		}
	}
	d.Release("a")
}

// WAIT asks about the writes of its own connection. After an execution that says "held" without a write, replicas would count
// immediately.
func TestARunThatSaysHeldHasWritten(t *testing.T) {
	d := scripttest.New(t, redistest.Lent(t).NewClient(t), "item")
	for _, mode := range []core.Mode{core.Exclusive, core.Read} {
		first := scripttest.Acquire{ID: "a1" + mode.String(), Mode: mode, Lease: time.Hour}
		d.WantHeld("the first", d.Acquire(first))
		again := first
		again.Lease = time.Second // the lease has not to be longer for that
		for what, run := range map[string]func(){
			"a repeated acquire": func() { d.WantHeld("again", d.Acquire(again)) },
			"a renewal": func() {
				d.WantRenewed("it", d.Renew(again.ID, again.Lease), script.Renewed{Outcome: script.Done})
			},
		} {
			before := changes(d)
			run()
			if changes(d) == before {
				t.Errorf("%s of mode %v has written nothing", what, mode)
			}
			if left := d.Redis.PTTL(t.Context(), d.Keys.Holder()).Val(); left < time.Hour/2 {
				t.Errorf("%s of mode %v has left a lease of %v", what, mode, left)
			}
		}
		d.Release(again.ID)
	}
}
