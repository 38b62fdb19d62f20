package main

import (
	"errors"
	"io"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func TestExactlyOneHoldIsReleased(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks := newClient(t, s)
		ctx, hold := take(t, locks, "user:42", lockmw.WithLabel("req-7"))
		id := idFor(t, s, "user:42")
		lockmwOn(t, s, "show", "user:42").want(t, statusDone, id, "req-7")
		lockmwOn(t, s, "unlock", "user:42").want(t, statusUsage, "--holder "+id)
		lockmwOn(t, s, "unlock", "user:42", "--yes").want(t, statusUsage, "--holder "+id)
		lockmwOn(t, s, "unlock", "user:42", "--holder", "1-abc", "--yes").want(t, statusGone, "nothing was released", id)
		lockmwOn(t, s, "unlock", "user:43", "--holder", id, "--yes").want(t, statusGone, "Nobody holds it now")
		lockmwOn(t, s, "unlock", "user:43").want(t, statusNothing, "nobody holds user:43")
		unlock := call{args: []string{"unlock", "user:42", "--holder", id, "--redis", s.Addr()}}
		for _, answer := range []string{"no\n", "", "yess\n"} {
			unlock.in = answer
			unlock.run(t.Context()).want(t, statusUnconfirmed, "req-7", "Type yes", "not confirmed")
		}
		if ctx.Err() != nil {
			t.Fatalf("the hold has ended: %v", ctx.Err())
		}
		unlock.in = "yes\n"
		unlock.run(t.Context()).want(t, statusDone, "released", "req-7")
		unlock.run(t.Context()).want(t, statusGone, "nothing was released")
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

func TestAnUnknownHoldIsNotReportedAsEnded(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	id := idFor(t, s, "user:42")
	for _, holder := range []string{"garbage", "-", "12", "1-", "-abc", "x-abc", id + " ", "99999999999999999999-abc", id[:len(id)-8], "user:42"} {
		r := lockmwOn(t, s, "unlock", "user:42", "--yes", "--holder="+holder)
		r.want(t, statusUsage, "user:42 has no hold "+holder, "nothing was released", "--holder "+id)
		if strings.Contains(r.err, "has ended") {
			t.Errorf("for %q the error says that the hold has ended: %s", holder, r.err)
		}
	}
	r := lockmwOn(t, s, "unlock", "user:42", "--yes", "--holder", "1-abc")
	if r.want(t, statusGone, "has no hold", "nothing was released", "--holder "+id); strings.Contains(r.err, "another operator") {
		t.Errorf("the error states a reason: %s", r.err)
	}
	lockmwOn(t, s, "unlock", "user:43", "--yes", "--holder", "garbage").want(t, statusUsage, "user:43 has no hold garbage", "Nobody holds it now")
	lockmwOn(t, s, "unlock", "user:43", "--yes", "--holder", id).want(t, statusGone, "user:43 has no hold "+id, "Nobody holds it now")
}

// meanwhile is an operator's input during which something happens.
type meanwhile struct {
	happens func()
	io.Reader
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.happens != nil {
		m.happens()
		m.happens = nil
	}
	return m.Reader.Read(p)
}

func TestTheSecondOfTwoOperatorsReleasesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks := newClient(t, s)
		take(t, locks, "user:42")
		id := idFor(t, s, "user:42")
		var next *lockmw.Hold
		var out, err strings.Builder
		status := run(t.Context(), console{
			in: &meanwhile{func() {
				lockmwOn(t, s, "unlock", "user:42", "--holder", id, "--yes").want(t, statusDone)
				_, next = take(t, newClient(t, s), "user:42")
			}, strings.NewReader("yes\n")},
			out: &out, err: &err, env: func(string) string { return "" },
		}, []string{"unlock", "user:42", "--holder", id, "--redis", s.Addr()})
		result{status, out.String(), err.String()}.want(t, statusGone, "nothing was released", "another operator", "Now held by")
		if err := next.Unlock(); err != nil {
			t.Errorf("the next holder has lost the lock: %v", err)
		}
	})
}

func TestAReleasePrintsTheHoldAsJSON(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	id := idFor(t, s, "user:42")
	r := lockmwOn(t, s, "unlock", "user:42", "--holder", id, "--yes", "--json")
	r.want(t, statusDone)
	if !strings.HasPrefix(r.out, `{"key":"user:42","released":{"id":"`+id+`",`) || strings.Count(r.out, "\n") != 1 {
		t.Errorf("it prints %s", r.out)
	}
}

func TestAReleaseIsInTheHistoryWithItsOperator(t *testing.T) {
	s := redistest.Mini(t)
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for by, flags := range map[string][]string{me.Username: nil, "alice": {"--by", "alice"}} {
		_, hold := take(t, newClient(t, s), "user:42", lockmw.WithLabel("req-7"))
		unlock := append([]string{"unlock", "user:42", "--holder", idFor(t, s, "user:42"), "--yes"}, flags...)
		lockmwOn(t, s, unlock...).want(t, statusDone)
		lockmwOn(t, s, "history", "user:42", "--last", "1").want(t, statusDone, "forced         req-7 @ ", "by "+by+" @ ", strconv.FormatInt(hold.Token(), 10))
		lockmwOn(t, s, "history", "--last", "1", "--json").want(t, statusDone, `"event":"forced"`, `"by":"`+by+`"`, `"behind_label":"req-7"`)
	}
}

func TestAReleaseThatCannotBeRecordedIsDone(t *testing.T) {
	s := redistest.Mini(t)
	if err := s.NewClient(t).Set(t.Context(), "lockmw:events", "not a stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	take(t, newClient(t, s), "user:42")
	lockmwOn(t, s, "unlock", "user:42", "--holder", idFor(t, s, "user:42"), "--yes").want(t, statusDone, "released", "not in the history", "WRONGTYPE")
}
