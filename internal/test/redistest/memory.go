package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
)

// A Memory is what an embedded server reports about its past, for clients with a quarantine.
type Memory struct {
	server *Server

	mu sync.Mutex
	id string
}

// NewMemory makes an embedded server answer INFO like a newly started master.
func (s *Server) NewMemory(t testing.TB) *Memory {
	t.Helper()
	m := &Memory{server: s, id: newReplicationID()}
	s.embedded(t).SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "INFO" {
			return false
		}
		c.WriteBulk(m.info())
		return true
	})
	return m
}

// Lose is a restart of the server without its data. Connections stay.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.Mini.FlushAll()
	m.id = newReplicationID()
}

func (m *Memory) info() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.ReplaceAll(fmt.Sprintf(`# Server
run_id:%[1]s
uptime_in_seconds:0
# Replication
role:master
master_replid:%[1]s
master_replid2:%040[2]d
repl_backlog_active:0
`, m.id, 0), "\n", "\r\n")
}

// newReplicationID returns a random id, like those of Redis.
func newReplicationID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
