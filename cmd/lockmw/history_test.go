package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// recorded records the events of a lock: one call holds and releases it, another waits.
func recorded(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	events := lockevents.New(usertest.Inspector(t, s.NewClient(t)))
	locks := newClient(t, s, lockmw.WithObserver(events.Observer()))
	_, hold := take(t, locks, key, lockmw.WithLabel("order-1"))
	if _, _, err := locks.TryLock(t.Context(), key, lockmw.WithLabel("order-2")); err == nil {
		t.Fatal("two calls hold the lock")
	}
	usertest.Unlock(t, hold)
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHistoryPrintsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	recorded(t, s, "user:42")
	recorded(t, s, "user:<\x1b[31m>")
	r := lockmwOn(t, s, "history", "user:42")
	r.want(t, statusDone, "acquired       order-1 @ ", "failed         order-2 @ ", "lock is busy", "released       order-1 @ ")
	if strings.Count(r.out, "\n") != 3 {
		t.Errorf("%s", r.out)
	}
	all := lockmwOn(t, s, "history")
	all.want(t, statusDone, "acquired       user:42  order-1 @", `user:<\x1b[31m>  order-1 @`)
	if strings.Contains(all.out, "\x1b") {
		t.Error("a key reaches the terminal")
	}
	lockmwOn(t, s, "history", "--last", "1").want(t, statusDone, "released")
	lockmwOn(t, s, "history", "user:43").want(t, statusNothing, "no events are recorded for user:43", "lockevents")
	lockmwOn(t, s, "history", "--last", "-1").want(t, statusUsage, "--last")
}

func TestHistoryPrintsJSON(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	recorded(t, s, "user:42")
	r := lockmwOn(t, s, "history", "--json")
	r.want(t, statusDone)
	var kinds []string
	for line := range strings.Lines(r.out) {
		var e recordedEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Key != "user:42" || e.Time.IsZero() || e.Process == "" || e.Label == "" {
			t.Errorf("%+v", e)
		}
		kinds = append(kinds, e.Event)
	}
	if got := strings.Join(kinds, " "); got != "acquired failed released" {
		t.Errorf("%s", got)
	}
}

func TestHistoryFollows(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	recorded(t, s, "user:42")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := start(t, ctx, "history", "user:42", "--follow", "--redis", s.Addr())
	lines := make(chan int)
	go func() { // counts lines
		n, buffer := 0, make([]byte, 1000)
		for {
			read, err := out.Read(buffer)
			n += strings.Count(string(buffer[:read]), "\n")
			if err != nil {
				close(lines)
				return
			}
			lines <- n
		}
	}()
	for n := range lines { // recorded events come first
		if n == 3 {
			break
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { // events before it follows are not printed
		for ctx.Err() == nil {
			recorded(t, s, "user:42")
		}
	})
	for n := range lines {
		if n > 3 {
			break
		}
	}
	cancel()
	wg.Wait()
	go func() {
		for range lines {
		}
	}()
	if status := <-ended; status != statusDone {
		t.Errorf("the exit status is %d", status)
	}
}

func TestHistoryFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	recorded(t, s, "user:42")
	for _, width := range []int{0, 40, 80, 100} {
		var out strings.Builder
		c := console{in: strings.NewReader(""), out: &out, err: io.Discard, env: func(string) string { return "" }, width: width}
		if status := run(t.Context(), c, []string{"history", "--redis", s.Addr()}); status != statusDone {
			t.Fatalf("the exit status is %d", status)
		}
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); width > 0 && n > max(width, 60) { // a part is not broken
				t.Errorf("at %d a line has %d columns: %s", width, n, line)
			}
		}
		if n := strings.Count(out.String(), "\n"); width == 0 && n != 3 || width == 80 && (n < 4 || !strings.Contains(out.String(), "\n"+strings.Repeat(" ", 29)+"after ")) {
			t.Errorf("at %d it prints\n%s", width, out.String())
		}
	}
}
