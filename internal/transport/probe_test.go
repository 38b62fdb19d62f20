package transport_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

func TestAServerThatMayLoseOrDoubleLocksIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	for says, want := range map[string]string{
		"role:master maxmemory_policy:noeviction":      "",
		"role:master maxmemory_policy:allkeys-lru":     "may evict locks",
		"role:active-replica":                          "other servers accept writes",
		"role:active-replica maxmemory_policy:allkeys": "may evict locks",
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Says(says))
		sender := transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{})
		t.Cleanup(sender.Stop)
		var log strings.Builder
		transport.NewProbe(sender, nil, "lockmw", slog.New(slog.NewTextHandler(&log, nil))).RunNow()
		if got := log.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("a server that says %q is logged as %q, want %q", says, got, want)
		}
	}
}

// The first lock of a process may be asked for while the server is down.
func TestAServerThatDoesNotAnswerIsProbedAgain(t *testing.T) {
	for name, disturb := range map[string]func(*redistest.Wire){
		"unreachable": (*redistest.Wire).Cut,
		"silent":      (*redistest.Wire).Silence,
	} {
		t.Run(name, func(t *testing.T) {
			defer race.OneProcessor()()
			synctest.Test(t, func(t *testing.T) {
				s := redistest.Piped(t)
				wire := s.NewWire()
				rdb := s.NewClient(t, wire.Use)
				rdb.AddHook(redistest.Says("role:master maxmemory_policy:allkeys-lru"))
				sender := transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{})
				schedule := timers.New(func() {})
				t.Cleanup(schedule.Stop)
				t.Cleanup(sender.Stop)
				var log strings.Builder
				p := transport.NewProbe(sender, schedule, "lockmw", slog.New(slog.NewTextHandler(&log, nil)))
				disturb(wire)
				wire.Record()
				p.Schedule()
				time.Sleep(time.Hour)
				synctest.Wait()
				if log.Len() > 0 {
					t.Errorf("a server that does not answer is accused: %s", &log)
				}
				if n := len(wire.Sent()); n > 1000 {
					t.Errorf("a server that does not answer gets %d commands in an hour", n)
				}
				wire.Restore()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if n := strings.Count(log.String(), "may evict locks"); n != 1 {
					t.Errorf("once it answers, there are %d warnings", n)
				}
			})
		})
	}
}
