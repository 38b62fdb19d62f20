package verify

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// A server that is frozen has been slow before it answers again.
func TestAQuestionWithoutAnAnswerIsADelay(t *testing.T) {
	s := redistest.Mini(t)
	frozen, melt := make(chan struct{}), make(chan struct{})
	freeze := sync.OnceFunc(func() { close(frozen) }) // connecting takes several commands
	s.Mini.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
		freeze()
		<-melt
		return false
	})
	w, from := newWatch(s.NewClient(t)), judge.MachineNow()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ask(t.Context())
	}()
	<-frozen
	usertest.Eventually(t, "it counts as slow", time.Minute, func() bool { return w.late(from, judge.MachineNow()) >= askSlow })
	close(melt)
	<-done
}

// A proxy may not know INFO. That is no delay of the server, which would excuse other faults.
func TestAServerWithoutInfoIsNotSlow(t *testing.T) {
	defer race.OneProcessor()()
	for _, refusal := range []string{"ERR unknown command 'info'", "ERR unsupported command", "NOPERM this user has no permissions"} {
		synctest.Test(t, func(t *testing.T) { isNotSlow(t, refusal) })
	}
}

func isNotSlow(t *testing.T, refusal string) {
	s := redistest.Piped(t)
	rdb := s.NewClient(t)
	if err := rdb.Ping(t.Context()).Err(); err != nil { // the server begins with its first connection
		t.Fatal(err)
	}
	s.Mini.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command != "INFO" {
			return false
		}
		c.WriteError(refusal)
		return true
	})
	w, from := newWatch(rdb), time.Now()
	w.ask(t.Context())
	time.Sleep(askEvery)
	if late := w.late(judge.MachineTime(from), judge.MachineTime(time.Now())); late > 0 || w.mayInfo {
		t.Errorf("%s: %v of the time count as slow; it asks again: %t", refusal, late, w.mayInfo)
	}
	if silent, err := w.outage(); silent > 0 {
		t.Errorf("%s: silent for %v: %v", refusal, silent, err)
	}
}
