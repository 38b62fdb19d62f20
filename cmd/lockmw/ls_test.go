package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// waitBehind starts a call of another process that waits for key until the test ends, and returns once it is queued.
func waitBehind(t *testing.T, s *redistest.Server, key string, opts ...lockmw.Option) {
	t.Helper()
	queued := make(chan struct{})
	l := fairlock.New(newClient(t, s))
	done := make(chan struct{})
	opts = append(opts, lockmw.WithObserver(&lockmw.Observer{Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(queued) }}))
	go func() {
		defer close(done)
		_, _, _ = l.Lock(t.Context(), key, opts...) // ends with the test or acquires the lock
	}()
	t.Cleanup(func() { <-done })
	<-queued
}

func TestLocksAreListedByTheLongestWait(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		locks := newClient(t, s)
		take(t, locks, "cart:1")
		take(t, locks, "order:2", lockmw.WithLabel("req-7"))
		waitBehind(t, s, "order:2")
		r := lockmwOn(t, s, "ls")
		r.want(t, statusDone)
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if len(lines) != 3 {
			t.Fatalf("it prints %d lines, want 3:\n%s", len(lines), r.out)
		}
		for i, want := range [][]string{
			{"KEY", "MODE", "HOLDER", "HELD", "TTL", "WAIT", "LONGEST"}, {"order:2", "exclusive", "req-7 @ "}, {"cart:1", "exclusive"},
		} {
			for _, text := range want {
				if !strings.Contains(lines[i], text) {
					t.Errorf("line %d has no %q: %s", i+1, text, lines[i])
				}
			}
		}
		lockmwOn(t, s, "ls", "--sort", "key", "--limit", "1").want(t, statusDone, "cart:1", "1 more are not shown")
		r = lockmwOn(t, s, "ls", "--waited")
		if r.want(t, statusDone, "order:2"); strings.Contains(r.out, "cart:1") {
			t.Error("a lock without waiters is listed with --waited")
		}
		lockmwOn(t, s, "ls", "--kind", "user").want(t, statusNothing, "no lock matches")
		take(t, locks, "payments")
		r = lockmwOn(t, s, "ls", "--kind", "lock") // as metrics call keys without a kind
		if r.want(t, statusDone, "payments"); strings.Contains(r.out, "cart:1") {
			t.Error("a key of another kind is listed")
		}
	})
}

// fieldsOf returns the names of an object's fields.
func fieldsOf(v any) string { return strings.Join(slices.Sorted(maps.Keys(v.(map[string]any))), " ") }

func TestTheFieldNamesOfJSONAreStable(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "order:2", lockmw.WithLabel("req-7"))
	waitBehind(t, s, "order:2")
	locks := fairlock.New(newClient(t, s))
	if _, _, err := locks.TryLock(t.Context(), "order:2", lockmw.WithPlace("task", time.Minute)); err == nil {
		t.Fatal("the lock is not busy")
	}
	var listed, shown map[string]any
	for r, into := range map[*result]*map[string]any{
		new(lockmwOn(t, s, "ls", "--json")): &listed, new(lockmwOn(t, s, "show", "order:2", "--json")): &shown,
	} {
		if err := json.Unmarshal([]byte(r.out), into); err != nil || r.status != statusDone {
			t.Fatalf("%v: %+v", err, r)
		}
	}
	for _, lock := range []map[string]any{listed, shown} {
		for what, tt := range map[string]struct {
			of   any
			want string
		}{
			"lock":   {lock, "holders kept key longest_wait_seconds mode waiters waiting"},
			"holder": {lock["holders"].([]any)[0], "fixed held_seconds id label lingers owner process since token ttl_seconds"},
			"waiter": {lock["waiters"].([]any)[0], "calls label mode position process since ticket waiting_seconds"},
			"place":  {lock["kept"].([]any)[0], "name since ttl_seconds"},
		} {
			if got := fieldsOf(tt.of); got != tt.want {
				t.Errorf("a %s has %s, want %s", what, got, tt.want)
			}
		}
		if since, err := time.Parse(time.RFC3339, lock["holders"].([]any)[0].(map[string]any)["since"].(string)); err != nil || since.IsZero() {
			t.Errorf("since when it is held: %v, %v", since, err)
		}
	}
}

func TestAnEmptyListNamesTheOtherPrefixes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		take(t, newClient(t, s, lockmw.WithPrefix("shop")), "user:42")
		for _, args := range [][]string{{"ls"}, {"show", "user:42"}} {
			lockmwOn(t, s, args...).want(t, statusNothing, "nobody has used the prefix lockmw", "--prefix shop")
		}
		lockmwOn(t, s, "show", "user:43", "--prefix", "shop").want(t, statusNothing, "nobody holds or waits for user:43 under the prefix shop")
		lockmwOn(t, s, "ls", "--prefix", "shop").want(t, statusDone, "user:42")
	})
}

// closed is a pipe whose reader has stopped reading.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, &wrapped{syscall.EPIPE} }

type wrapped struct{ error }

func (w *wrapped) Unwrap() error { return w.error }

func TestAClosedPipeIsNotAFailure(t *testing.T) {
	s := redistest.Mini(t)
	locks := newClient(t, s)
	for i := range 3 {
		take(t, locks, fmt.Sprint("user:", i))
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"ls", "--sort", "none"}, {"show", "user:1"}, {"watch", "user:1"}, {"top", "--json"}} {
		var err strings.Builder
		c := console{in: strings.NewReader(""), out: closed{}, err: &err, env: func(string) string { return "" }}
		if status := run(t.Context(), c, append(args, "--redis", s.Addr())); status != statusDone || err.Len() > 0 {
			t.Errorf("%q exits with %d and prints %q", args, status, err.String())
		}
	}
}

// A pipeline that reads a part of the output, such as `set -o pipefail; lockmw doctor | grep -q aof`, must still fail.
func TestAClosedPipeHidesNoFailure(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	c := console{in: strings.NewReader(""), out: closed{}, err: t.Output(), env: func(string) string { return "" }}
	if status := run(t.Context(), c, []string{"doctor", "--read-only", "--redis", s.Addr()}); status != statusUnfit {
		t.Errorf("doctor exits with %d", status)
	}
	take(t, newClient(t, s), "user:1")
	var lock lockRecord
	if err := json.Unmarshal([]byte(lockmwOn(t, s, "show", "user:1", "--json").out), &lock); err != nil {
		t.Fatal(err)
	}
	// Nobody saw it free, or the question.
	for args, want := range map[string]int{"watch user:1 --until-free": statusFailed, "unlock user:1 --holder " + lock.Holders[0].ID: statusUnconfirmed} {
		if status := run(t.Context(), c, append(strings.Fields(args), "--redis", s.Addr())); status != want {
			t.Errorf("%s exits with %d, want %d", args, status, want)
		}
	}
	closedByRedis := &net.OpError{Op: "write", Net: "tcp", Err: &wrapped{syscall.EPIPE}}
	if status := (&command{io: c}).exitStatus(t.Context(), fmt.Errorf("%w: %w", lockmw.ErrUnavailable, closedByRedis)); status != statusFailed {
		t.Errorf("after a broken connection the exit status is %d", status)
	}
}

// A value that can only be a mistake is not an empty result, which a script takes for "no such lock".
func TestAMistakenValueIsNoEmptyResult(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:1")
	for _, args := range []string{
		"ls --mode exclusve", "top --json --mode exclusve", "ls --held-longer -5s", "top --json --waiting-longer -5s", "ls --limit -1",
		"top --json --for -1s", "watch user:1 --until-free --for -1s", "history --last 0", "ls --timeout 0", "ls --timeout -1s",
	} {
		ctx, cancel := limited(t)
		if r := (call{args: append(strings.Fields(args), "--redis", s.Addr())}).run(ctx); r.status != statusUsage {
			t.Errorf("%s: the exit status is %d: %s%s", args, r.status, r.out, r.err)
		}
		cancel()
	}
	for _, key := range []string{"", strings.Repeat("x", 1025)} {
		for _, command := range []string{"show", "watch", "unlock", "history", "tasks"} {
			if r := lockmwOn(t, s, command, key); r.status != statusUsage {
				t.Errorf("%s of a key of %d bytes exits with %d: %s%s", command, len(key), r.status, r.out, r.err)
			}
		}
	}
	lockmwOn(t, s, "ls", "--mode", "exclusive").want(t, statusDone, "user:1")
}

// A label may be long, and the end of a process' name says which one it is.
func TestAPipeGetsWholeHolders(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	label := strings.Repeat("label-", 16) + "end"
	usertest.Lock(t, t.Context(), newClient(t, s), "user:1", lockmw.WithLabel(label))
	lockmwOn(t, s, "ls").want(t, statusDone, label+" @ ")
}

func TestAFilterMatches(t *testing.T) {
	r := lockRecord{
		Key: "order:7/a", Mode: "exclusive", Waiting: 2, LongestWait: new(5.0),
		Holders: []holderRecord{{Process: "web-1:22:ab", Label: "req-7", Held: 60}}, Waiters: []waiterRecord{{Process: "web-2:9:cd"}},
	}
	for what, tt := range map[string]struct {
		filter
		want bool
	}{
		"all":                  {filter{}, true},
		"a key":                {filter{key: "order:7/a"}, true},
		"keys":                 {filter{key: "order:*"}, true},
		"a character":          {filter{key: "order:?/a"}, true},
		"a part of a key":      {filter{key: "order"}, false},
		"no expression":        {filter{key: "order.7*"}, false},
		"a kind":               {filter{kind: "order"}, true},
		"another kind":         {filter{kind: "orders"}, false},
		"a mode":               {filter{mode: "exclusive"}, true},
		"another mode":         {filter{mode: "read"}, false},
		"a process":            {filter{process: "web-1:*"}, true},
		"a process that waits": {filter{process: "web-2*"}, true},
		"another process":      {filter{process: "web-3*"}, false},
		"a label":              {filter{label: "req-*"}, true},
		"another label":        {filter{label: "task-*"}, false},
		"held for longer":      {filter{heldLonger: time.Minute}, true},
		"not for that long":    {filter{heldLonger: 61 * time.Second}, false},
		"waited for longer":    {filter{waitingLonger: 5 * time.Second}, true},
		"not waited so long":   {filter{waitingLonger: 6 * time.Second}, false},
		"waited for":           {filter{waited: true}, true},
		"several":              {filter{waited: true, kind: "order", process: "web-3*"}, false},
	} {
		if err := tt.prepare(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := tt.match(&r); got != tt.want {
			t.Errorf("%s: it matches: %t, want %t", what, got, tt.want)
		}
	}
}

func TestTheFirstOfAnOrderAreKept(t *testing.T) {
	compare, err := orderNamed("waiters")
	if err != nil {
		t.Fatal(err)
	}
	b := &best[*lockRecord]{compare: compare, most: 3}
	for _, waiting := range []int{4, 1, 9, 2, 7, 3} {
		b.add(&lockRecord{Waiting: waiting})
	}
	var got []int
	for _, r := range b.sorted() {
		got = append(got, r.Waiting)
	}
	if want := []int{9, 7, 4}; !slices.Equal(got, want) || b.left != 3 {
		t.Errorf("%v are kept and %d are not, want %v and 3", got, b.left, want)
	}
}

func TestForeignTextIsEscapedForTerminals(t *testing.T) {
	for text, want := range map[string]string{
		"user:42": "user:42", `a "b"`: `a "b"`, "größe": "größe", "\x1b[2Jx": `\x1b[2Jx`, "a\nb": `a\nb`, "\u202e": `\u202e`, "<script>": "<script>",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := short("äöüabc", 4); got != "äöü…" {
		t.Errorf("cut off, it is %q", got)
	}
}

func TestTheHelpNamesEveryCommand(t *testing.T) {
	r := call{args: []string{"--help"}}.run(t.Context())
	r.want(t, statusDone, "ls ", "show ", "watch ", "unlock ", "top ", "version ", "LOCKMW_REDIS", "Exit statuses")
	call{args: []string{"version"}}.run(t.Context()).want(t, statusDone, "lockmw ")
	call{args: []string{"version", "--json"}}.run(t.Context()).want(t, statusDone, `{"version":`)
	for _, args := range [][]string{{"list"}, {"show"}, {"ls", "x"}, {"ls", "--colour"}, {"ls", "--sort", "age"}, {"top", "--sort", "age"}, {"top"}} {
		call{args: args}.run(t.Context()).want(t, statusUsage)
	}
}

func TestAListFitsTheTerminal(t *testing.T) {
	s := redistest.Mini(t)
	locks := newClient(t, s)
	long := "order:" + strings.Repeat("x", 900)
	take(t, locks, "cart:7", lockmw.WithLabel("req-7"))
	take(t, locks, long, lockmw.WithLabel(strings.Repeat("label-", 10)))
	take(t, locks, "鍵:"+strings.Repeat("鍵", 300))
	take(t, locks, "two\nlines\t"+strings.Repeat("\x1b", 50))
	if err := s.NewClient(t).Set(t.Context(), "lockmw:{wrong}", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	ls := func(width int, args ...string) []string {
		t.Helper()
		var out, errs strings.Builder
		c := console{in: strings.NewReader(""), out: &out, err: &errs, env: func(string) string { return "" }, width: width}
		if status := run(t.Context(), c, append([]string{"ls", "--redis", s.Addr()}, args...)); status != statusDone {
			t.Fatalf("%d: %s", status, errs.String())
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	for _, width := range []int{20, 40, 66, 80, 81, 133, 2000} {
		for _, args := range [][]string{nil, {"--sort", "none"}} {
			lines := ls(width, args...)
			for _, line := range lines {
				if w := ansi.StringWidth(line); w > width {
					t.Errorf("at %d a line is %d wide: %s", width, w, line)
				}
			}
			all := strings.Join(lines, "\n")
			if len(lines) != 6 || !strings.Contains(all, "…") && width < 1000 || width >= 66 && !strings.Contains(all, "cart:7  ") || strings.Contains(all, long) != (width > 1000) {
				t.Errorf("at %d it prints\n%s", width, all)
			}
			if width >= 80 && !strings.Contains(all, "req-7 @ ") {
				t.Errorf("at %d no holder is shown:\n%s", width, all)
			}
		}
	}
	for _, line := range ls(80)[1:] {
		if !strings.Contains(line, "exclusive  ") && !strings.Contains(line, "?  ") {
			t.Errorf("a long key hides the other columns: %s", line)
		}
	}
	for _, line := range ls(0) { // a pipe gets whole keys, and no row is padded for another
		if !strings.Contains(line, "x") && !strings.Contains(line, "鍵") && !strings.HasPrefix(line, "wrong") && ansi.StringWidth(line) > 200 {
			t.Errorf("a row is padded to %d: %s", ansi.StringWidth(line), line)
		}
	}
	if all := strings.Join(ls(0), "\n"); !strings.Contains(all, long) {
		t.Errorf("a key in a pipe is cut off:\n%s", all)
	}
}
