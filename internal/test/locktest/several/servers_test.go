package several_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// An absence is a way in which a master becomes unavailable and returns.
type absence struct {
	takeDown, bringBack func(t *testing.T, servers replaceable, master int)
	isolates            bool // clients still reach it
}

// absences are the faults that make Sentinels or a Cluster replace a master. A stopped master keeps its connections open. A
// master that is cut off still serves clients.
var absences = map[string]absence{
	"killed": {
		takeDown:  func(_ *testing.T, servers replaceable, master int) { servers.Servers()[master].Kill() },
		bringBack: func(t *testing.T, servers replaceable, master int) { servers.Servers()[master].Restart(t) },
	},
	"stopped": {
		takeDown:  func(t *testing.T, servers replaceable, master int) { servers.Servers()[master].Pause(t) },
		bringBack: func(t *testing.T, servers replaceable, master int) { servers.Servers()[master].Resume(t) },
	},
	"cut off": {
		takeDown:  func(_ *testing.T, servers replaceable, master int) { servers.CutOff(master) },
		bringBack: func(_ *testing.T, servers replaceable, master int) { servers.Rejoin(master) },
		isolates:  true,
	},
}

// replaced are the topologies that replace an unavailable master.
var replaced = map[string]func(t *testing.T, divisible bool) replaceable{
	"Cluster": func(t *testing.T, divisible bool) replaceable {
		if divisible {
			return aCluster{redistest.NewDivisibleCluster(t, 3, 1)}
		}
		return aCluster{redistest.NewCluster(t, 3, 1)}
	},
	"Sentinel": func(t *testing.T, divisible bool) replaceable {
		if divisible {
			return aSentinel{redistest.NewDivisibleSentinel(t, 1, 3)}
		}
		return aSentinel{redistest.NewSentinel(t, 1, 3)}
	},
}

type replaceable interface {
	redistest.Deployment
	master(key string) int
	awaitPromoted(key string, old int)
	AwaitReplicated(master int)
	AwaitSettled()
	CutOff(master int)
	Rejoin(master int)
}

type aCluster struct{ *redistest.Cluster }

func (c aCluster) master(key string) int             { return c.Owner(key) }
func (c aCluster) awaitPromoted(key string, old int) { c.AwaitPromoted(key, old) }

type aSentinel struct{ *redistest.Sentinel }

func (s aSentinel) master(string) int               { return s.Master() }
func (s aSentinel) awaitPromoted(_ string, old int) { s.AwaitPromoted(old) }

// onReplaced runs test for each topology and each absence that some accepts. start starts the servers.
func onReplaced(t *testing.T, some func(how absence) bool, test func(t *testing.T, start func(t *testing.T) replaceable, how absence)) {
	suite.NeedsFull(t, "servers take seconds to be replaced")
	for topology, start := range replaced {
		for name, how := range absences {
			if !some(how) {
				continue
			}
			t.Run(topology+", "+name, func(t *testing.T) {
				t.Parallel()
				test(t, func(t *testing.T) replaceable { return start(t, how.isolates) }, how)
			})
		}
	}
}

// newEnv makes the environment of a scenario with its own servers.
func newEnv(t *testing.T, start func(t *testing.T) replaceable) (e *env.Env, servers replaceable) {
	t.Helper()
	e = env.New(t, env.Config{
		Mode: env.ClientMode, Several: true,
		Server: func(testing.TB) redistest.Deployment { servers = start(t); return servers },
	})
	return e, servers
}
