package redistest

import (
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
)

// Know makes an embedded server find scripts that were never loaded: sources maps their SHAs to their texts. SCRIPT LOAD would
// parse each of them again for each server, but all servers of a program share the scripts that EVAL has parsed. So the first
// EVALSHA of such a script runs as an EVAL.
func (s *Server) Know(t testing.TB, sources map[string]string) {
	t.Helper()
	var unused sync.Map
	for sha, source := range sources {
		unused.Store(sha, source)
	}
	srv := s.embedded(t)
	srv.SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "EVALSHA" || len(args) == 0 {
			return false
		}
		source, found := unused.LoadAndDelete(args[0])
		if !found {
			return false
		}
		srv.Dispatch(c, append([]string{"EVAL", source.(string)}, args[1:]...))
		return true
	})
}
