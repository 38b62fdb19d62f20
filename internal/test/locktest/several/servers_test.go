package several_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
)

// absences are how a master goes away, and comes back. One that is stopped keeps all connections open.
var absences = map[string]struct {
	goes, returns func(t *testing.T, s *redistest.Server)
}{
	"killed": {
		func(_ *testing.T, s *redistest.Server) { s.Kill() },
		func(t *testing.T, s *redistest.Server) { s.Restart(t) },
	},
	"stopped": {
		func(t *testing.T, s *redistest.Server) { s.Pause(t) },
		func(t *testing.T, s *redistest.Server) { s.Resume(t) },
	},
}

// replaced are servers of which one takes the place of another that is away.
var replaced = map[string]func(t *testing.T) replaceable{
	"Cluster":  func(t *testing.T) replaceable { return aCluster{redistest.NewCluster(t, 3, 1)} },
	"Sentinel": func(t *testing.T) replaceable { return aSentinel{redistest.NewSentinel(t, 1, 3)} },
}

type replaceable interface {
	redistest.Deployment
	master(key string) int
	awaitPromoted(key string, old int)
	AwaitReplicated(master int)
	AwaitSettled()
}

type aCluster struct{ *redistest.Cluster }

func (c aCluster) master(key string) int             { return c.Owner(key) }
func (c aCluster) awaitPromoted(key string, old int) { c.AwaitPromoted(key, old) }

type aSentinel struct{ *redistest.Sentinel }

func (s aSentinel) master(string) int               { return s.Master() }
func (s aSentinel) awaitPromoted(_ string, old int) { s.AwaitPromoted(old) }

// newEnv makes what a scenario on servers of its own runs on.
func newEnv(t *testing.T, start func(t *testing.T) replaceable) (e *env.Env, servers replaceable) {
	t.Helper()
	e = env.New(t, env.Config{
		Mode: env.ClientMode, Several: true,
		Server: func(testing.TB) redistest.Deployment { servers = start(t); return servers },
	})
	return e, servers
}
