package script_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// A recordTurn is one execution of a script that writes a record.
type recordTurn struct {
	name string
	set  func(d *scripttest.Driver) // before it
	run  func(d *scripttest.Driver) scripttest.Operation
}

func claimed(d *scripttest.Driver)  { begins(d, "a", claimOver("r1")) }
func lapsed(d *scripttest.Driver)   { claimed(d); lapse(d) }
func replaced(d *scripttest.Driver) { lapsed(d); begins(d, "a", claimOver("r2")) }
func locked(d *scripttest.Driver)   { d.Fair("a") }
func retaken(d *scripttest.Driver)  { lapsed(d); locked(d) }
func left(d *scripttest.Driver)     { claimed(d); d.ReleaseRecord("a", endOf("r1", "leave")) }

func claimTurn(d *scripttest.Driver) scripttest.Operation { return d.Claims("b", claimOver("r3")) }

func beginTurn(d *scripttest.Driver) scripttest.Operation {
	claim := claimOver("r3")
	return &script.RecordBegin{Keys: d.Keys, ID: scripttest.ID("a"), Token: d.Token(), Claim: &claim}
}

func endTurn(end core.RecordEnd) func(d *scripttest.Driver) scripttest.Operation {
	return func(d *scripttest.Driver) scripttest.Operation { return &script.RecordEnd{Keys: d.Keys, End: &end} }
}

func releaseTurn(end core.RecordEnd) func(d *scripttest.Driver) scripttest.Operation {
	return func(d *scripttest.Driver) scripttest.Operation {
		return &script.Release{Keys: d.Keys, ID: scripttest.ID("a"), Mark: true, Record: &end}
	}
}

func cancelTurn(run string) func(d *scripttest.Driver) scripttest.Operation {
	return func(d *scripttest.Driver) scripttest.Operation {
		return &script.Cancel{Keys: d.Keys, ID: "a", Mark: true, Run: run}
	}
}

var recordTurns = []recordTurn{
	{"a claim of a free key", func(*scripttest.Driver) {}, claimTurn},
	{"a claim that replaces a run", lapsed, claimTurn},
	{"a claim that replaces a run that has returned", left, claimTurn},
	{"a claim that waits", locked, claimTurn},
	{"a begin", locked, beginTurn},
	{"a begin that replaces a run", retaken, beginTurn},
	{"a record", claimed, endTurn(keepOf("r1"))},
	{"a record and release", claimed, releaseTurn(keepOf("r1"))},
	{"a forget and release", claimed, releaseTurn(endOf("r1", "forget"))},
	{"a leave and release", claimed, releaseTurn(endOf("r1", "leave"))},
	{"a void and release", replaced, releaseTurn(endOf("r2", "void"))},
	{"a cancel", claimed, cancelTurn("r1")},
	{"a cancel of a run that has replaced another", replaced, cancelTurn("r2")},
}

// A script that is cut off has either written the record as a whole, or not at all. A run whose record is open has the lock, and a
// run keeps the lock until its end is written. A second execution completes the first.
func TestARecordIsWrittenAsAWhole(t *testing.T) {
	race.FindsNothing(t)
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for _, turn := range recordTurns {
			d.Redis.FlushAll(d.Context())
			turn.set(d)
			before := storedFields(d)
			d.Send(turn.run(d))
			after, holder := storedFields(d), d.Look().HolderID()
			for _, of := range []map[string]string{before, after} {
				delete(of, "token") // which each try changes
			}
			for writes := range 30 {
				d.Redis.FlushAll(d.Context())
				turn.set(d)
				held := d.Look().HolderID()
				op := turn.run(d)
				d.EndAfter(writes)
				ended := d.Send(op).Err
				d.EndAtTheEnd()
				if ended != nil && !strings.Contains(ended.Error(), "ended after so many writes") {
					d.Fatalf("%s: %v", turn.name, ended)
				}
				fault := func(what string) {
					d.Helper()
					d.Errorf("%s, cut off after %d writes: %s: %v, %v", turn.name, writes, what, storedFields(d), d.Look())
				}
				cut := storedFields(d)
				delete(cut, "token")
				whole := maps.Equal(cut, after)
				if !whole && !maps.Equal(cut, before) {
					fault("a part of the record is written")
				}
				now := d.Look().HolderID()
				_, isCancel := op.(*script.Cancel)
				switch {
				case whole && cut["run"] == "r3" && now != cut["id"]:
					fault("the run has no lock")
				case !whole && held == "a" && now != "a" && !isCancel:
					fault("the lock was released first")
				}
				if ttl := d.Redis.PTTL(d.Context(), d.Keys.Record()).Val(); len(cut) > 0 && ttl <= 0 {
					fault("it never expires")
				}
				d.Send(op)
				again := storedFields(d)
				delete(again, "token")
				if !maps.Equal(again, after) || d.Look().HolderID() != holder {
					fault("executed again, it does not complete")
				}
				if ended == nil {
					break
				}
			}
		}
	})
}

// A full server refuses to let a run begin, so that nothing runs. A run that has begun before can end.
func TestWithFullMemoryARunEndsAndNoneBegins(t *testing.T) {
	isFull := func(d *scripttest.Driver, what string, op scripttest.Operation) {
		d.Helper()
		before, record := contentOf(d), storedFields(d)
		if err := d.Send(op).Err; err == nil || !strings.Contains(err.Error(), "OOM") {
			d.Errorf("%s: %v, want OOM", what, err)
		}
		if contentOf(d) != before || !maps.Equal(storedFields(d), record) {
			d.Errorf("%s, which was refused, has written", what)
		}
	}
	onFullMemory(t, "free", func(*scripttest.Driver) {}, func(d *scripttest.Driver) { isFull(d, "a claim", claimTurn(d)) })
	onFullMemory(t, "left without an outcome", left, func(d *scripttest.Driver) { isFull(d, "a claim", claimTurn(d)) })
	onFullMemory(t, "locked", locked, func(d *scripttest.Driver) { isFull(d, "a begin", beginTurn(d)) })
	onFullMemory(t, "open for another run", retaken, func(d *scripttest.Driver) { isFull(d, "a begin", beginTurn(d)) })
	for outcome, want := range map[string]string{
		"keep": "done r1 0 0", "leave": "open r1 0 0 returned", "forget": "none r1 0 0", "void": "none  0 0",
	} {
		onFullMemory(t, outcome, claimed, func(d *scripttest.Driver) {
			wantBegins(d, "a", d.Token(), claimOver("r1"), "open r1 0 0") // a copy
			end := keepOf("r1")
			end.Outcome = outcome
			end.Answer = []byte(strings.Repeat("x", 64<<10))
			if ok, released := d.ReleaseRecord("a", end); !ok || released != script.Done {
				d.Errorf("%v, %v", ok, released)
			}
			wantRecord(d, "ended", want)
			d.WantHolder("")
			if outcome == "keep" {
				if got := d.Claim("b", claimOf("r2")); len(got.Record.Answer) != 64<<10 {
					d.Errorf("repeated: %+v", got)
				}
			}
		})
	}
	onFullMemory(t, "end without the lock", lapsed, func(d *scripttest.Driver) {
		if !d.EndRecord(keepOf("r1")) {
			d.Error("it was not recorded")
		}
	})
	onFullMemory(t, "cancelled", replaced, func(d *scripttest.Driver) {
		d.CancelRecord("a", "r2")
		wantRecord(d, "cancelled", "open r2-void 0 1 returned")
	})
}

// A foreign value at the key of a record is reported and left alone, and nothing runs. A hold can still end.
func TestAStrangerAtARecordIsLeftAlone(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		all := strangers(d)
		for _, text := range []string{"", "open r2 7 f1", "this is a text of nine words in all"} {
			all["text "+text] = func(key string) error { return d.Redis.Set(d.Context(), key, text, 0).Err() }
		}
		for kind, put := range all {
			d.Redis.FlushAll(d.Context())
			if err := put(d.Keys.Record()); err != nil {
				d.Fatal(err)
			}
			before := d.Redis.Dump(d.Context(), d.Keys.Record()).Val()
			isRefused := func(what string, op scripttest.Operation, read func(*transport.Reply) error) {
				d.Helper()
				if err := transport.Failure(read(d.Send(op))); !errors.Is(err, core.ErrWrongType) {
					d.Errorf("a %s: %s: %v, want ErrWrongType", kind, what, err)
				}
			}
			isRefused("a claim", claimTurn(d), func(r *transport.Reply) error { _, err := script.AcquireAnswer(r, ""); return err })
			d.WantHolder("")
			locked(d)
			isRefused("a begin", beginTurn(d), func(r *transport.Reply) error { _, _, err := script.RecordBeginAnswer(r); return err })
			for _, end := range []core.RecordEnd{keepOf("r1"), endOf("r1", "leave")} {
				isRefused(end.Outcome, endTurn(end)(d), func(r *transport.Reply) error { _, err := script.RecordEndAnswer(r); return err })
			}
			isRefused("a release", releaseTurn(keepOf("r1"))(d), func(r *transport.Reply) error { return r.Err })
			d.Want("cancel", d.CancelRecord("a", "r1"), script.Done)
			d.WantHolder("")
			if d.Redis.Dump(d.Context(), d.Keys.Record()).Val() != before || d.Redis.PTTL(d.Context(), d.Keys.Record()).Val() > 0 {
				d.Errorf("a %s was changed", kind)
			}
		}
	})
}

// In the last millisecond of its time, a record is not half written.
func TestAnEndInTheLastMillisecondLeavesNothing(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		for _, left := range []time.Duration{1, time.Millisecond, 0} {
			for _, outcome := range []string{"leave", "forget", "void"} {
				begins(d, "a", claimOf("r1"))
				later(recordTTL - left)
				d.EndRecord(endOf("r1", outcome))
				later(left + time.Millisecond)
				if d.Redis.Exists(d.Context(), d.Keys.Record()).Val() != 0 {
					d.Errorf("%s %v before the record expires: %v, for %v", outcome, left, storedFields(d), d.Redis.PTTL(d.Context(), d.Keys.Record()).Val())
				}
				d.Redis.FlushAll(d.Context())
			}
		}
	})
}
