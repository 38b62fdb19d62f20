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

// WAIT asks for what was written on its connection: a run that says "held" without a write would count at once.
func TestARunThatSaysHeldHasWritten(t *testing.T) {
	d := scripttest.New(t, redistest.Redis(t).NewClient(t), "item")
	changes := func() string {
		info, err := d.Redis.Info(t.Context(), "persistence").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(info, "rdb_changes_since_last_save:")
		if !found {
			t.Fatalf("the server does not count its changes: %s", info)
		}
		return after[:strings.IndexByte(after, '\r')]
	}
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
			before := changes()
			run()
			if changes() == before {
				t.Errorf("%s of mode %v has written nothing", what, mode)
			}
			if left := d.Redis.PTTL(t.Context(), d.Keys.Holder()).Val(); left < time.Hour/2 {
				t.Errorf("%s of mode %v has left a lease of %v", what, mode, left)
			}
		}
		d.Release(again.ID)
	}
}
