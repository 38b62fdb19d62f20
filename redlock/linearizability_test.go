package redlock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/fault"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// Calls are linearizable, despite faults of their connections, commands and answers and of a minority of the nodes. The nodes keep
// their data.
func TestAHistoryIsLinearizable(t *testing.T) {
	suite.NeedsFull(t, "useful histories take seconds")
	t.Parallel()
	var nodes []*redistest.Server
	cfg := env.RedisNodes(5, patientlyOver)
	cfg.Server = func(t testing.TB) redistest.Deployment {
		d := redistest.NewNodes(t, 5, func(t testing.TB) *redistest.Server {
			return redistest.Redis(t, redistest.Kept...)
		})
		nodes = d.Servers()
		return d
	}
	e := env.New(t, cfg)
	for i, s := range nodes { // so that tokens rise by the rules and not by the clocks
		counter := time.Now().Add(time.Duration(i) * 10 * time.Second).UnixMicro()
		if err := s.NewClient(t).Set(t.Context(), e.Server.Prefix+":fence", counter, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	fault.Linearizability(e, func(string) {
		var back []func()
		for _, i := range rand.Perm(len(nodes))[:1+rand.IntN(2)] {
			back = append(back, failNode(t, nodes[i]))
		}
		e.Pass(rand.N(100 * time.Millisecond))
		for _, comeBack := range back {
			comeBack()
		}
		e.Pass(rand.N(50 * time.Millisecond))
	})
}

// failNode kills or stops a node. Call comeBack to bring it back.
func failNode(t *testing.T, s *redistest.Server) (comeBack func()) {
	if rand.IntN(2) == 0 {
		s.Pause(t)
		return func() { s.Resume(t) }
	}
	s.Kill()
	return func() { s.Restart(t) }
}
