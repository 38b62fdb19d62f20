package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var workKey = idempotency.Key{Scope: "user-7", ID: "click-1"}

// begin begins a run of workKey.
func begin(t *testing.T, once *idempotency.Runner) *idempotency.Run {
	t.Helper()
	run, err := once.Begin(t.Context(), workKey, workKey.Fingerprint([]byte("secret request")), idempotency.RunAgain)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// shown returns the output of lockmw show for workKey, and its record in JSON.
func shown(t *testing.T, s *redistest.Server, runs ...*idempotency.Run) (text string, record map[string]any) {
	t.Helper()
	r := lockmwOn(t, s, "show", workKey.LockKey())
	r.want(t, statusDone)
	for line := range strings.Lines(r.out) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 && !strings.HasPrefix(line, "idem:") {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
	j := lockmwOn(t, s, "show", workKey.LockKey(), "--json")
	var lock struct{ Record map[string]any }
	if err := json.Unmarshal([]byte(j.out), &lock); err != nil || j.status != statusDone {
		t.Fatalf("%v: %+v", err, j)
	}
	secrets := []string{"secret", workKey.Fingerprint([]byte("secret request")).String()}
	for _, run := range runs {
		secrets = append(secrets, run.ID())
	}
	for _, secret := range secrets {
		if strings.Contains(r.out+j.out, secret) {
			t.Errorf("the output has %s:\n%s%s", secret, r.out, j.out)
		}
	}
	return r.out, lock.Record
}

func TestShowSaysWhetherTheWorkOfAKeyIsDone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		once := idempotency.New(newClient(t, s))
		want := func(when string, runs []*idempotency.Run, outcome string, texts ...string) map[string]any {
			t.Helper()
			text, record := shown(t, s, runs...)
			if record["outcome"] != outcome {
				t.Errorf("%s the outcome is %v, want %s", when, record["outcome"], outcome)
			}
			for _, part := range texts {
				if !strings.Contains(text, part) {
					t.Errorf("%s, %q is missing:\n%s", when, part, text)
				}
			}
			if unknown := strings.Contains(text, "outcome is unknown"); unknown != (outcome == "unknown") {
				t.Errorf("%s it prints\n%s", when, text)
			}
			return record
		}
		crashed := begin(t, once)
		runs := []*idempotency.Run{crashed}
		want("while it runs", runs, "running", "1 holder, 0 waiting", "  record  open: its run works, and holds the lock\n    began ")
		if n := s.NewClient(t).Del(t.Context(), "lockmw:{"+workKey.LockKey()+"}").Val(); n != 1 {
			t.Fatal("the lock is not held")
		}
		const hint = "    → its outcome is unknown: find out what it did, then call Runner.Resolve\n"
		want("after a crash", runs, "unknown", "0 holders", "open: its run does not hold the lock; it crashed, or still works", hint)
		_, hold := take(t, newClient(t, s), workKey.LockKey())
		want("while another holds the lock", runs, "unknown", "1 holder", "the holder may be deciding: look again")
		usertest.Unlock(t, hold)

		failed := begin(t, once)
		if err := failed.Leave(); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, failed)
		record := want("after an error", runs, "unknown", "returned without an outcome", "    earlier  1 run without an outcome, 1 never returned\n", hint)
		if record["returned"] != true {
			t.Errorf("after an error a record has %v", record)
		}

		forgotten := begin(t, once)
		if err := forgotten.Forget(); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, forgotten)
		want("after a run that did nothing", runs, "none", "forgotten: the last run did nothing", "earlier  2 runs")

		kept := begin(t, once)
		if err := kept.Keep(idempotency.Answer{Status: 201, Body: []byte("secret")}); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, kept)
		record = want("after an answer", runs, "done", "0 holders, 0 waiting", "  record  done\n", "    ended ", "    expires  in ", "    status   201\n", "    answer   2", "    token    ")
		if record["returned"] != nil {
			t.Errorf("after an answer a record has %v", record)
		}
		if got, want := fieldsOf(record), "answer_bytes began earlier ended never_returned outcome returned state status token ttl_seconds"; got != want {
			t.Errorf("a record has %s, want %s", got, want)
		}
		lockmwOn(t, s, "ls").want(t, statusNothing)
	})
}

func TestShowOfAKeyWithoutARecordHasNoRecord(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "order:2")
	for _, args := range [][]string{{"show", "order:2"}, {"show", "order:2", "--json"}} {
		if r := lockmwOn(t, s, args...); r.status != statusDone || strings.Contains(r.out, "record") {
			t.Errorf("%q prints\n%s", args, r.out)
		}
	}
}

func TestShowSaysThatOtherDataIsInPlaceOfARecord(t *testing.T) {
	s := redistest.Mini(t)
	if err := s.NewClient(t).Set(t.Context(), "lockmw:{"+workKey.LockKey()+"}:record", "secret", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if text, _ := shown(t, s); !strings.Contains(text, "unreadable: other data is there") {
		t.Errorf("it prints\n%s", text)
	}
	_, err := idempotency.New(newClient(t, s)).Begin(t.Context(), workKey, idempotency.Fingerprint{}, idempotency.Refuse)
	if !errors.Is(err, lockmw.ErrWrongType) {
		t.Errorf("a call returns %v", err)
	}
}

func TestRecordsAreNotCountedAsLocks(t *testing.T) {
	s := redistest.Mini(t)
	once := idempotency.New(newClient(t, s))
	for i := range 3 {
		k := idempotency.Key{Scope: "user-7", ID: fmt.Sprint("click-", i+2)}
		_, err := idempotency.Do(t.Context(), once, k, "", idempotency.Refuse, func(context.Context, string) (int, error) { return 1, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	running := begin(t, once)
	r := lockmwOn(t, s, "ls", "--json")
	if r.want(t, statusDone, workKey.LockKey(), `"outcome":"running"`); strings.Count(r.out, "\n") != 1 {
		t.Errorf("it lists\n%s", r.out)
	}
	out, ended := start(t, t.Context(), "top", "--json", "--interval", "100ms", "--redis", s.Addr())
	line := topLine{Partial: true}
	var err error
	for d := json.NewDecoder(out); line.Partial && err == nil; {
		line = topLine{}
		err = d.Decode(&line)
	}
	if err != nil || line.Held != 1 || line.Waiting != 0 || len(line.Locks) != 1 {
		t.Errorf("top prints %+v, %v", line, err)
	}
	_ = out.CloseWithError(errors.New("enough"))
	<-ended
	if err := running.Forget(); err != nil {
		t.Fatal(err)
	}
}
