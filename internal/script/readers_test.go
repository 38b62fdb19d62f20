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

func TestReadersShareALock(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		first := d.Read("a")
		d.WantHeld("a", first)
		for _, id := range []string{"b", "c"} {
			if got := d.Read(id); got.Outcome != script.Held || got.Grant.Token != first.Grant.Token || got.Grant.Waiting != 0 {
				d.Errorf("%s: %+v, want %+v as for a", id, got, first)
			}
		}
		d.WantHeld("a try", d.TryRead("d"))
		d.WantReaders("a", "b", "c", "d")
		d.Acquire(scripttest.Acquire{ID: "e", Mode: core.Read, Trace: "00-trace"})
		now := d.Look()
		if r := now.Readers()["e"]; r.Owner != "owner-e" || r.Inbox != "lockmw:inbox:e" || r.Trace != "00-trace" ||
			max(now.Now.Sub(time.UnixMicro(r.Since)), time.UnixMicro(r.Since).Sub(now.Now)) > scripttest.Soon {
			d.Errorf("the server has of e: %+v", r)
		}
		if token, _ := now.Holder.Digits("token"); token != first.Grant.Token {
			d.Errorf("the phase has token %d, its readers %d", token, first.Grant.Token)
		}
	})
}

func TestAPhaseKeepsItsTokenWhenTheCounterIsLost(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		token := d.Read("a").Grant.Token
		scripttest.PassToken(d.T, token)
		d.Redis.Del(d.Context(), d.Keys.Fence())
		d.Tidy = false // there is none until a writer comes
		if got := d.Read("b"); got.Grant.Token != token {
			d.Errorf("a reader of the same phase has token %d, want %d", got.Grant.Token, token)
		}
		d.Write("w")
		d.Release("a")
		d.Release("b")
		if polled := d.Poll("w").Tickets; polled[0].Grant.Token <= token {
			d.Errorf("the writer after them has token %d after %d", polled[0].Grant.Token, token)
		}
	})
}

func TestPositionsAreThoseInTheQueue(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Read("a")
		d.WantQueued("w1", d.Write("w1"), 1, 1)
		d.WantQueued("r1", d.Read("r1"), 1, 2)
		d.WantQueued("r2", d.Read("r2"), 2, 3)
		second := d.Write("w2")
		if second.Outcome != script.Queued || second.Wait.Position < 2 || second.Wait.Position > 4 || second.Wait.Queued != 4 {
			d.Errorf("the second writer: %+v", second)
		}
		places := make([]int64, 0, 4)
		for _, id := range []string{"w1", "r1", "r2", "w2"} {
			places = append(places, d.Acquire(scripttest.Acquire{ID: id, Mode: map[byte]core.Mode{'w': core.Write, 'r': core.Read}[id[0]]}).Place)
		}
		if !slices.IsSorted(places) || len(slices.Compact(slices.Clone(places))) != 4 {
			d.Errorf("the places are %d", places)
		}
		if got := d.TryRead("try"); got.Wait.Position != 0 || got.Wait.Queued != 4 {
			d.Errorf("a try: %+v", got)
		}
		polled := d.Poll("w1", "r1", "r2", "w2", "gone", "a")
		all := polled.Tickets
		if polled.Wait.Queued != 4 {
			d.Errorf("a poll: %d are queued, want 4", polled.Wait.Queued)
		}
		for i, want := range []int{1, 1, 2, second.Wait.Position} {
			if all[i].Outcome != script.Queued || all[i].Position != want {
				d.Errorf("poll of ticket %d: %+v, want position %d", i, all[i], want)
			}
		}
		if all[4].Outcome != script.Over || all[5].Outcome != script.Held || all[5].Grant.Waiting != 2 {
			d.Errorf("poll of a stranger and of a reader: %+v, %+v", all[4], all[5])
		}
	})
}

// A poll that passes the lock on also reports the new positions of the other tickets.
func TestAPollAnswersThePositionsThatItLeaves(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("held")
		for _, id := range []string{"a", "b", "c"} {
			d.Write(id)
		}
		d.Read("r")
		d.Read("s")
		d.Redis.Del(d.Context(), d.Keys.Holder()) // its lease expired
		polled := d.Poll("b", "c", "r")
		all := polled.Tickets
		if polled.Wait.Queued != 4 {
			d.Errorf("%d are queued, want 4", polled.Wait.Queued)
		}
		for i, position := range []int{1, 2, 1} {
			if all[i].Outcome != script.Queued || all[i].Position != position {
				d.Errorf("number %d is %+v, want position %d", i, all[i], position)
			}
		}
	})
}

// A caller receives all holders, if they are few.
func TestACallerLearnsWhoReads(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		const most = script.MaxShown
		for i := range most {
			d.Acquire(scripttest.Acquire{ID: fmt.Sprint("r", i), Mode: core.Read, Trace: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"})
			got := d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Try: true})
			owners := make([]string, 0, most)
			for _, h := range got.Wait.Holders {
				owners = append(owners, h.Owner)
			}
			slices.Sort(owners)
			if len(slices.Compact(owners)) != i+1 {
				d.Errorf("of %d readers it learns of %q", i+1, owners)
			}
		}
		token := d.Read("more").Grant.Token
		got := d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write})
		if n := len(got.Wait.Holders); n < 1 || n > most {
			d.Errorf("of %d readers it learns of %d", most+1, n)
		}
		for _, h := range got.Wait.Holders {
			if h.Token != token || h.Since.IsZero() || h.TTL <= 0 || h.TTL > scripttest.Lease {
				d.Errorf("a reader: %+v", h)
			}
		}
	})
}

// A minimum hold that is shorter than the rest of the lease still belongs to the reader that has left.
func TestAReaderThatLeftLateIsShownAsLongAsItStays(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.WantHeld("a", d.Read("a"))
		d.Want("release", d.Linger("a", scripttest.Lease/3), script.Done)
		got := d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write})
		if len(got.Wait.Holders) != 1 || got.Wait.Holders[0].TTL > scripttest.Lease/3 || got.Wait.Holders[0].Owner != "owner-a" {
			d.Errorf("in the way are %+v, want owner-a for a third of its lease", got.Wait.Holders)
		}
	})
}
