package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// lineUp makes the first of some ids hold the lock and the others wait. The first letter of an id is its process.
func lineUp(d *scripttest.Driver, ids ...string) {
	d.Helper()
	for _, id := range ids {
		d.FairOf(id[:1], id)
	}
}

// grantOf returns the ids and the tokens in the message of a grant.
func grantOf(d *scripttest.Driver, heard []string) (ids []string, tokens string) {
	d.Helper()
	if len(heard) != 1 {
		d.Fatalf("heard %q", heard)
	}
	_, grant, _ := strings.Cut(heard[0], ": grant ")
	fields := strings.Fields(grant)
	if len(fields) < 6 {
		d.Fatalf("heard %q", heard)
	}
	return strings.Split(fields[0], ","), fields[3]
}

// ofAnotherVersion adds an unknown flag to a ticket.
func ofAnotherVersion(id string) func(d *scripttest.Driver) {
	return func(d *scripttest.Driver) {
		ticket := d.Redis.HGet(d.Context(), d.Keys.Tickets(), id).Val()
		d.Redis.HSet(d.Context(), d.Keys.Tickets(), id, strings.Replace(ticket, " 1r:", " 1rx:", 1))
	}
}

func TestAGrantIsForThoseRightBehindIt(t *testing.T) {
	for name, c := range map[string]struct {
		queue     []string
		meanwhile func(d *scripttest.Driver)
		want      []string
	}{
		"of one process":         {[]string{"p1", "p2", "p3"}, nil, []string{"p1", "p2", "p3"}},
		"of two":                 {[]string{"p1", "p2", "q1", "p3"}, nil, []string{"p1", "p2"}},
		"in turns":               {[]string{"p1", "q1", "p2", "q2"}, nil, []string{"p1"}},
		"with one that does not": {[]string{"p1", "p2"}, func(d *scripttest.Driver) { d.Fair("x1"); d.FairOf("p", "p3") }, []string{"p1", "p2"}},
		"with another lease": {[]string{"p1", "p2"}, func(d *scripttest.Driver) {
			d.Acquire(scripttest.Acquire{ID: "p3", Mode: core.Fair, Runs: true, Process: "p", Lease: time.Minute})
		}, []string{"p1", "p2"}},
		"to write": {[]string{"p1"}, func(d *scripttest.Driver) {
			d.Acquire(scripttest.Acquire{ID: "p2", Mode: core.Write, Runs: true, Process: "p"})
		}, []string{"p1"}},
		"with a strange id":            {[]string{"p1", "p2", "p,3", "p4"}, nil, []string{"p1", "p2"}},
		"with a cancelled one":         {[]string{"p1", "p2", "p3"}, func(d *scripttest.Driver) { d.Cancel("p2") }, []string{"p1", "p3"}},
		"with one of another version":  {[]string{"p1", "p2", "p3"}, ofAnotherVersion("p2"), []string{"p1"}},
		"before others of its version": {[]string{"p1", "p2"}, ofAnotherVersion("p1"), []string{"p1"}},
		"before others, after a while": {[]string{"p1", "p2"}, func(d *scripttest.Driver) {
			ofAnotherVersion("p1")(d)
			d.Redis.HSet(d.Context(), d.Keys.Tickets(), "#touched", 1)
		}, []string{"p1"}},
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
				lineUp(d, append([]string{"h0"}, c.queue...)...)
				if c.meanwhile != nil {
					c.meanwhile(d)
				}
				scripttest.PassToken(d, d.Token())
				heard := d.Hear()
				queue := d.Look().Writers()
				d.Release("h0")
				ids, tokens := grantOf(d, heard())
				if !slices.Equal(ids, c.want) || tokens != fmt.Sprint(len(ids)) {
					d.Errorf("granted to %q with %s tokens, want %q", ids, tokens, c.want)
				}
				if got := d.Look(); !slices.Equal(got.Writers(), queue[1:]) || got.HolderID() != "p1" {
					d.Errorf("the queue was %q: %v", queue, got)
				}
				last, _ := d.Look().Counter()
				d.ReleaseRun("p1", ids[1:]...)
				if got := d.Look(); !slices.Equal(got.Writers(), queue[min(len(ids)+1, len(queue)):]) {
					d.Errorf("after %q the queue is %q: %v", ids, queue, got)
				} else if got.Holder.Exists() && d.Token() <= last {
					d.Errorf("the next one has token %d after %d", d.Token(), last)
				}
			})
		})
	}
}

// A grant that passes over a ticket whose process does not listen has no batch.
func TestThereIsNoRunIfSomebodyIsPassedOver(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.FairOf("h", "h0")
		d.Acquire(scripttest.Acquire{ID: "x1", Mode: core.Fair, Runs: true, Process: "x", Subscribed: true})
		lineUp(d, "p1", "p2")
		later(2 * script.BeatInterval)
		d.Redis.Del(d.Context(), d.Keys.Holder())
		d.Poll("p1", "p2")
		if got := d.Look(); got.HolderID() != "p1" || got.Holder.Fields["tokens"] != "" {
			d.Errorf("%v", got)
		}
	})
}

// A member may have got its own hold, and downgraded it.
func TestACancelOfARunEndsWhatTheyReadBy(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for _, id := range []string{"p2", "p3", "r1"} {
			d.Read(id)
		}
		d.Want("cancel", d.CancelRun("p1", "p2", "p3"), script.Done)
		d.WantReaders("r1")
	})
}

// A ticket that waits to read, or is queued ahead of another one, ends a grant batch; a ticket behind all others does not.
func TestArrivalsThatEndARun(t *testing.T) {
	for name, c := range map[string]struct {
		arrives scripttest.Acquire
		ends    bool
	}{
		"behind all":   {scripttest.Acquire{Mode: core.Fair}, false},
		"plain":        {scripttest.Acquire{}, false},
		"to read":      {scripttest.Acquire{Mode: core.Read}, true},
		"to its place": {scripttest.Acquire{Mode: core.Fair, Predecessor: "x1", PredecessorPlace: 5}, true},
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
				lineUp(d, "h0", "p1", "p2")
				scripttest.PassToken(d, d.Token())
				d.Release("h0")
				heard := d.Hear()
				c.arrives.ID = "n1"
				d.Acquire(c.arrives)
				if got := heard(); slices.Contains(got, "p: contended p1") != c.ends {
					d.Errorf("heard %q", got)
				}
			})
		})
	}
}

// The size of a grant batch is bounded.
func TestARunIsBounded(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		ids := scripttest.IDs("p", 10)
		for _, letter := range []string{"pa", "pb", "pc"} {
			ids = append(ids, scripttest.IDs(letter, 10)...)
		}
		lineUp(d, append([]string{"h0"}, ids...)...)
		lineUp(d, "pd0", "pd1", "pd2", "pd3")
		scripttest.PassToken(d, d.Token())
		heard := d.Hear()
		d.Release("h0")
		if got, tokens := grantOf(d, heard()); len(got) != script.MaxGrantBatch || tokens != fmt.Sprint(script.MaxGrantBatch) {
			d.Errorf("granted to %d with %s tokens", len(got), tokens)
		}
	})
}
