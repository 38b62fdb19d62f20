package script_test

import (
	"testing"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// Ids in use, later ids and ids of other processes stay.
func TestADisownEndsWhatIsOverOnly(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Read("a1")
		d.Read("a2")
		d.Read("a3")
		d.Read("aa") // of another process whose stem is shorter: 10 is above 3
		d.Read("b1")
		d.Want("disown", d.Disown("a", 3, 2), script.Done)
		d.WantReaders("a2", "aa", "b1")
		d.Want("repeated", d.Disown("a", 3, 2), script.Done)
		d.WantReaders("a2", "aa", "b1")
	})
}

// It grants the lock as a release does. A ticket that it has ended does not get the lock.
func TestADisownPassesTheLockOn(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Fair("a1")
		d.Fair("a2")
		d.Fair("a3")
		d.Fair("b1")
		d.Want("disown", d.Disown("a", 2), script.Done)
		wantHolder(d, "a3")
		d.Want("disown", d.Disown("a", 3), script.Done)
		wantHolder(d, "b1")
		d.Want("of nothing", d.Disown("a", 3), script.Done)
		wantHolder(d, "b1")
	})
}

func wantHolder(d *scripttest.Driver, id string) {
	d.Helper()
	if got := d.Look().HolderID(); got != id {
		d.Errorf("the holder is %q, want %q", got, id)
	}
}

func TestADisownGoesByTheNumberOfAnID(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for n, ends := range map[uint64]bool{35: true, 36: true, 36 * 36: true, 36*36 + 1: false} {
			id := script.IDStem("a.").New(n).String()
			d.Lock(id)
			d.Want("disown", d.Disown("a.", 36*36), script.Done)
			if held := d.Look().Has(id); held == ends {
				d.Errorf("%s is held: %t", id, held)
			}
			d.Cancel(id)
		}
		for _, id := range []string{"a.", "a.-", "a.1.1", "b.1"} { // none of the process
			d.Lock("x1")
			d.Redis.HSet(d.Context(), d.Keys.Holder(), "id", id)
			d.Want("disown", d.Disown("a.", 36*36), script.Done)
			wantHolder(d, id)
			d.Redis.Del(d.Context(), d.Keys.Holder())
		}
	})
}

func TestADisownOfPermitsEndsWhatIsOverOnly(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for _, id := range []string{"a1", "a2", "a3", "a4", "b1"} {
			d.AcquirePermit(scripttest.Permit{ID: id, N: 3})
		}
		d.Want("disown", d.DisownPermits("a", 3, 2), script.Done)
		d.CheckPermits(true)
		for id, has := range map[string]bool{"a1": false, "a2": true, "a3": false, "a4": true, "b1": true} {
			if got := d.PollPermits(id).Tickets[0].Outcome == script.Held; got != has {
				d.Errorf("%s is held: %t", id, got)
			}
		}
		d.Want("repeated", d.DisownPermits("a", 3, 2), script.Done)
		d.CheckPermits(true)
	})
}
