package rivermw_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lockmw/go/internal/test/dbserver"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	redistest.ChildMain(childSpec.run)
	suite.Begin()
	leak.VerifyMain(func() int {
		defer shared.stop()
		return m.Run()
	})
}

// shared is the PostgreSQL server of all tests that do not stop it. The first of them starts it.
var shared sharedServer

type sharedServer struct {
	mu      sync.Mutex
	server  *dbserver.Server
	schemas int
	ends    []func()
}

// A lastingTest starts what outlives the test.
type lastingTest struct {
	testing.TB
	shared *sharedServer
}

func (l lastingTest) Cleanup(f func())         { l.shared.ends = append(l.shared.ends, f) }
func (l lastingTest) Context() context.Context { return context.Background() }

// get returns the server, and a number for the test's schema.
func (s *sharedServer) get(t testing.TB) (*dbserver.Server, int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		s.server = startServer(lastingTest{t, s})
	}
	s.schemas++
	return s.server, s.schemas
}

func (s *sharedServer) stop() {
	for len(s.ends) > 0 {
		last := len(s.ends) - 1
		s.ends[last]()
		s.ends = s.ends[:last]
	}
}
