package lockmw_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A process that takes one lock needs no more than one connection and a handful of commands.
func TestTheFirstLockUsesOneConnection(t *testing.T) {
	s := redistest.Redis(t)
	var sent []redistest.Command
	var conns int
	for range 10 { // on a busy machine the first lock may take so long that a look at the server follows
		if sent, conns = firstLock(t, s); len(sent) <= 10 && conns == 1 {
			return
		}
	}
	t.Errorf("the first lock takes %d connections and %d commands: %.40q", conns, len(sent), sent)
}

// firstLock returns what a new process sends for one lock, and over how many connections.
func firstLock(t *testing.T, s *redistest.Server) (sent []redistest.Command, conns int) {
	wire := s.NewWire()
	c := usertest.ClientOf(t, s.NewClient(t, wire.Use))
	wire.Record()
	_, hold := usertest.Lock(t, t.Context(), c, "first")
	usertest.Unlock(t, hold)
	awaitCommands(t, wire, "replication", 1) // the look at the server that follows a release
	return slices.DeleteFunc(wire.Sent(), func(c redistest.Command) bool {
		return c[0] == "hello" || c[0] == "client" // what go-redis says on each connection
	}), wire.Conns()
}

// A process that does one thing after the other has one connection for commands and one for messages; in a Cluster at each node.
func TestAQuietClientHasTwoConnections(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		testQuietClient(t, redistest.Redis(t), 2)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("a Cluster takes seconds to start")
		}
		testQuietClient(t, redistest.NewCluster(t, 3, 0), 3*2+1) // a poll may overlap with a release
	})
}

func testQuietClient(t *testing.T, d redistest.Deployment, most int) {
	var n int
	for range 10 { // a look at the server may fall together with a command
		if n = connectionsOfQuietClient(t, d); n <= most {
			return
		}
	}
	t.Errorf("there are %d connections, not %d", n, most)
}

func connectionsOfQuietClient(t *testing.T, d redistest.Deployment) int {
	wire := d.NewWire()
	_, cluster := d.(*redistest.Cluster)
	c, other := usertest.ClientOf(t, d.Universal(t, wire.Use)), usertest.ClientOf(t, d.Universal(t))
	for i := range 20 { // some at each node
		key := fmt.Sprint("quiet:", i)
		release := usertest.Occupy(t, other, key)
		contended, waits := usertest.OnContended(t)
		wire.Record()
		go func() {
			waits()
			if i == 0 || cluster { // its inbox is new, so a poll follows
				awaitCommands(t, wire, key, 2)
			}
			release()
		}()
		_, hold := usertest.Lock(t, t.Context(), c, key, contended)
		usertest.Unlock(t, hold)
	}
	_, hold := usertest.Lock(t, t.Context(), c, "renewed", lockmw.WithLease(300*time.Millisecond))
	wire.Record()
	awaitCommands(t, wire, "{renewed}", 1)
	if err := hold.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) { // on a busy machine the short lease may end
		t.Errorf("Unlock: %v", err)
	}
	return wire.Conns()
}

// awaitCommands waits for n commands with a word that contains text.
func awaitCommands(t *testing.T, w *redistest.Wire, text string, n int) {
	t.Helper()
	usertest.Eventually(t, "commands about "+text, 10*time.Second, func() bool {
		found := 0
		for _, c := range w.Sent() {
			if c.Concerns(text) {
				found++
			}
		}
		return found >= n
	})
}
