package engine

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
)

// A lineWriter gets what is logged.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// inLoggedOutage plays with an engine whose server is down, and what it logs.
func inLoggedOutage(t *testing.T, test func(t *testing.T, s *redistest.Server, e *Engine, log chan string)) {
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		log := make(chan string, 1000)
		cfg := DefaultConfig()
		cfg.Logger = slog.New(slog.NewTextHandler(lineWriter(log), nil))
		e, err := New(s.NewClient(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		e.probe.Disable()
		s.Mini.SetError("CLUSTERDOWN The cluster is down")
		test(t, s, e, log)
		_ = e.Close()
		time.Sleep(2 * time.Second) // until go-redis' goroutines have ended
	})
}

// Calls that have given up may leave thousands of ids behind, which all expire at about the same time.
func TestLocksThatCannotBeReleasedAreLoggedTogether(t *testing.T) {
	inLoggedOutage(t, func(t *testing.T, _ *redistest.Server, e *Engine, log chan string) {
		const n = 100
		for i := range n {
			e.cancelID(e.layout.KeySet(fmt.Sprint("item:", i)), cancelTarget{id: e.newID().String(), lease: time.Second})
		}
		time.Sleep(script.QueueTTL + script.AcceptWindow + 5*time.Second)
		if n, line := len(log), <-log; n != 1 || !strings.Contains(line, "could not release") {
			t.Errorf("%d lines: %s", n, line)
		}
		time.Sleep(loglimit.Interval)
		e.cancelID(e.layout.KeySet("item:1"), cancelTarget{id: e.newID().String(), lease: time.Second})
		time.Sleep(script.QueueTTL + script.AcceptWindow + 5*time.Second)
		if line := <-log; !strings.Contains(line, fmt.Sprintf("suppressed=%d", n-1)) {
			t.Errorf("the next line: %s", line)
		}
	})
}

// A call without a limit would otherwise wait without a word.
func TestALongOutageIsLogged(t *testing.T) {
	inLoggedOutage(t, func(t *testing.T, s *redistest.Server, e *Engine, log chan string) {
		waits := make(chan error, 1)
		go func() {
			_, err := e.Acquire(t.Context(), &newRequester(bubbleKey).Request)
			waits <- err
		}()
		time.Sleep(longOutage / 2)
		if len(log) > 0 {
			t.Errorf("of a short outage: %s", <-log)
		}
		time.Sleep(8 * time.Second)
		if n, line := len(log), <-log; n != 1 || !strings.Contains(line, "calls wait for the lock server") ||
			!strings.Contains(line, "CLUSTERDOWN The cluster is down") {
			t.Errorf("%d lines: %s", n, line)
		}
		s.Mini.SetError("")
		if err := <-waits; err != nil {
			t.Error(err)
		}
	})
}
