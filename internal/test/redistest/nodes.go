package redistest

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Nodes are servers that do not know one another.
type Nodes struct{ all []*Server }

// NewNodes starts n of them by start, such as Redis or Piped.
func NewNodes(t testing.TB, n int, start func(t testing.TB) *Server) *Nodes {
	t.Helper()
	nodes := &Nodes{}
	for i := range n {
		s := start(t)
		if s.pipe {
			s.addr = fmt.Sprintf("127.0.0.%d:0", i+1) // an unused address, by which a Wire finds the server
		}
		nodes.all = append(nodes.all, s)
	}
	return nodes
}

// Servers returns all nodes.
func (n *Nodes) Servers() []*Server { return n.all }

// Universal returns a client of the first node.
func (n *Nodes) Universal(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient {
	return n.all[0].NewClient(t, edit...)
}

// Options has the addresses of all nodes, for clients in another process.
func (n *Nodes) Options() *redis.UniversalOptions {
	o := &redis.UniversalOptions{}
	for _, s := range n.all {
		o.Addrs = append(o.Addrs, s.addr)
	}
	return o
}

// NewWire returns an undisturbed Wire to all nodes.
func (n *Nodes) NewWire() *Wire {
	return newWire(func(ctx context.Context, addr string) (net.Conn, error) {
		for _, s := range n.all {
			if s.addr == addr {
				return s.dial(ctx, addr)
			}
		}
		return nil, fmt.Errorf("no node is at %s", addr)
	})
}
