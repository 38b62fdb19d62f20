package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// claim is what a call asks for that replaces a run without an outcome.
func claim(run string) core.RecordClaim {
	return core.RecordClaim{Run: run, Fingerprint: "print-of-" + run, Over: true, MaxSilent: 3, TTL: time.Hour}
}

// again is a claim by another run for the request of the first.
func again(run string) core.RecordClaim {
	c := claim("run-1")
	c.Run = run
	return c
}

// wantRecord checks the record that an Inspector shows, as "state running returned earlier silent", and returns it.
func wantRecord(d *scripttest.Driver, when, want string) *inspect.Record {
	d.Helper()
	r := status(d).Record
	if r == nil {
		d.Fatalf("%s: there is no record", when)
	}
	if got := fmt.Sprint(r.State, " ", r.Running, " ", r.Returned, " ", r.Earlier, " ", r.Silent); got != want {
		d.Errorf("%s: the record is %q, want %q", when, got, want)
	}
	if r.TTL <= 0 || r.TTL > time.Hour {
		d.Errorf("%s: it expires in %v", when, r.TTL)
	}
	if text := fmt.Sprintf("%+v", r); strings.Contains(text, "run-") || strings.Contains(text, "print-") || strings.Contains(text, "secret") {
		d.Errorf("%s: it shows too much: %s", when, text)
	}
	return r
}

func isNow(at time.Time) bool { return time.Since(at).Abs() < scripttest.Soon }

func TestAnInspectorShowsTheStateOfARecord(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Lock("other")
		if r := status(d).Record; r != nil {
			d.Errorf("without a record there is %+v", r)
		}
		d.Release("other")

		first := d.Claim("a", claim("run-1")).Grant.Token
		if r := wantRecord(d, "while it runs", "open true false 0 0"); r.Token != first || !isNow(r.Began) || !r.Ended.IsZero() {
			d.Errorf("while it runs the record is %+v", r)
		}
		d.Redis.Del(d.Context(), d.Keys.Holder()) // as at the end of its lease
		wantRecord(d, "after the lease", "open false false 0 0")
		d.Lock("other")
		wantRecord(d, "while another holds the lock", "open false false 0 0")
		d.Release("other")

		d.Claim("b", again("run-2"))
		wantRecord(d, "in the second run", "open true false 1 1")
		d.ReleaseRecord("b", core.RecordEnd{Run: "run-2", Outcome: "leave"})
		wantRecord(d, "after an error", "open false true 1 1")

		third := d.Claim("c", again("run-3")).Grant.Token
		d.ReleaseRecord("c", core.RecordEnd{Run: "run-3", Outcome: "forget"})
		if r := wantRecord(d, "after a run that did nothing", "forgotten false false 2 1"); !r.Began.IsZero() || r.Token != third {
			d.Errorf("after a run that did nothing the record is %+v", r)
		}

		d.Claim("e", again("run-4"))
		d.ReleaseRecord("e", core.RecordEnd{Run: "run-4", Outcome: "keep", TTL: time.Hour, Status: 201, Answer: []byte("secret\x00")})
		r := wantRecord(d, "after an answer", "done false false 2 1")
		if r.Status != 201 || r.Size != 7 || !isNow(r.Began) || !isNow(r.Ended) || r.Ended.Before(r.Began) {
			d.Errorf("after an answer the record is %+v", r)
		}
	})
}

func TestTheAnswerOfARecordDoesNotLeaveTheServer(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Claim("a", claim("run-1"))
		d.ReleaseRecord("a", core.RecordEnd{Run: "run-1", Outcome: "keep", TTL: time.Hour, Answer: []byte("secret")})
		stored, err := script.StatusAnswer(d.Send(&script.Status{Keys: d.Keys}))
		if err != nil || stored.Record.Answer != len("secret") {
			d.Fatal(stored, err)
		}
		for _, hidden := range []string{"run-1", claim("run-1").Fingerprint, "secret"} {
			if strings.Contains(stored.Record.Text, hidden) {
				d.Errorf("the record is shown as %q", stored.Record.Text)
			}
		}
	})
}

func TestARecordAloneIsNotListedAsALock(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Claim("a", claim("run-1"))
		if found := all(d); len(found) != 1 || found[0].Key != d.Key || len(found[0].Holders) != 1 || found[0].Record == nil {
			d.Errorf("while it runs a scan finds %+v", found)
		}
		d.ReleaseRecord("a", core.RecordEnd{Run: "run-1", Outcome: "leave"})
		wantRecord(d, "after the run", "open false true 0 0")
		i, how := newInspector(d), inspect.Scan{Share: 1}
		var told inspect.Progress
		how.Progress = func(p inspect.Progress) { told = p }
		for name, scan := range map[string]func(func(*inspect.Status, error) bool){
			"All": i.All(d.Context(), how), "Queued": i.Queued(d.Context(), []string{d.Key}, how), "Read": i.Read(d.Context(), []string{d.Key}, how),
		} {
			for s, err := range scan {
				d.Errorf("%s yields %+v, %v", name, s, err)
			}
			if told.Locks != 0 {
				d.Errorf("%s counts %d locks", name, told.Locks)
			}
		}
		if places, err := i.KeptNames(d.Context(), how); err != nil || len(places) > 0 {
			d.Errorf("the kept places are %v, %v", places, err)
		}
	})
}

func TestAnOpenRecordWithoutAHoldIsNotRunning(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Redis.Set(d.Context(), d.Keys.Record(), "open - 0 - 0 0 0 - -", time.Minute)
		wantRecord(d, "with no hold", "open false false 0 0")
	})
}

// Such data stops calls with records only, so the lock is still shown.
func TestAForeignValueInPlaceOfARecordIsNamed(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		for what, put := range map[string]func() error{
			"a string": func() error { return d.Redis.Set(d.Context(), d.Keys.Record(), "theirs", time.Minute).Err() },
			"a hash":   func() error { return d.Redis.HSet(d.Context(), d.Keys.Record(), "state", "open").Err() },
			"a strange record": func() error {
				return d.Redis.Set(d.Context(), d.Keys.Record(), "open - 0 - 0 0 0 x -", time.Minute).Err()
			},
			"an empty string": func() error { return d.Redis.Set(d.Context(), d.Keys.Record(), "", time.Minute).Err() },
		} {
			d.Redis.Del(d.Context(), d.Keys.Record())
			if err := put(); err != nil {
				d.Fatal(err)
			}
			if s := status(d); len(s.Holders) != 1 || s.Record == nil || s.Record.State != "unreadable" || !s.Record.Began.IsZero() {
				d.Errorf("%s: the status is %+v with the record %+v", what, s, s.Record)
			}
		}
	})
}
