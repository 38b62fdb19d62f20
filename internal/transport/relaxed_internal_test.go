package transport

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/test/redistest"
)

// go-redis waits 10 s for an answer on a connection whose server says that it is migrating, whatever the limits of its client are.
func TestADirectCallEndsSoonAtAServerThatIsMaintained(t *testing.T) {
	for _, patient := range []bool{false, true} {
		t.Run(fmt.Sprintf("patient %t", patient), func(t *testing.T) {
			t.Parallel()
			s := redistest.Mini(t)
			var notified, pushes atomic.Bool
			s.Mini.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
				switch {
				case cmd == "CLIENT" && len(args) > 0 && (args[0] == "maint_notifications" || args[0] == "MAINT_NOTIFICATIONS"):
					notified.Store(true)
					c.WriteOK()
				case cmd == "EVALSHA" && pushes.Load():
					c.WriteRaw(">3\r\n$9\r\nMIGRATING\r\n:1\r\n:10\r\n")
					c.WriteInt(1)
				case cmd == "EVALSHA":
					c.WriteInt(1)
				default:
					return false
				}
				return true
			})
			wire := s.NewWire()
			rdb := s.NewClient(t, wire.Use)
			const patience = 100 * time.Millisecond
			sender := NewSender(rdb, Topology{Single: true}, patience, Replicas{})
			t.Cleanup(sender.Stop)
			script := NewScript("return 1")
			answers := make(chan *Reply, 1)
			run := func() (direct bool) {
				k := NewCall(t.Context(), script, 1, func(r *Reply) { answers <- r })
				k.AddKeys("key")
				return sender.Inline(k, patient)
			}
			answered := func() {
				t.Helper()
				run()
				if r := <-answers; r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			answered()
			pushes.Store(true)
			answered()
			if !notified.Load() {
				t.Fatal("go-redis does not ask for notifications")
			}
			sender.common.quick.Store(true) // a busy machine may have been slow
			wire.Silence()
			begun := time.Now()
			run()
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("a call returns %v after the server has fallen silent", took)
			}
			wire.Restore()
		})
	}
}

// The time for a connection is not the time for an answer.
func TestADirectCallWaitsForItsAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	const patience = 3 * time.Second // a busy machine may stand still for half a second
	s.Mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" {
			return false
		}
		<-time.After(patience * 3 / 4) // a slow server
		c.WriteInt(1)
		return true
	})
	sender := NewSender(rdb, Topology{Single: true}, patience, Replicas{})
	t.Cleanup(sender.Stop)
	answers := make(chan *Reply, 1)
	k := NewCall(t.Context(), NewScript("return 1"), 1, func(r *Reply) { answers <- r })
	k.AddKeys("key")
	direct := sender.Inline(k, true)
	if r := <-answers; r.Err != nil || !direct {
		t.Errorf("%v, at the first try: %t", r.Err, direct)
	}
}
