package redistest

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// NewDivisibleCluster is NewCluster with nodes that can be cut off. All their traffic passes through Proxies.
func NewDivisibleCluster(t testing.TB, masters, replicas int, args ...string) *Cluster {
	t.Helper()
	return newCluster(t, true, masters, replicas, args)
}

// NewDivisibleSentinel is NewSentinel with nodes that can be cut off. All their traffic passes through Proxies.
func NewDivisibleSentinel(t testing.TB, replicas, sentinels int, args ...string) *Sentinel {
	t.Helper()
	return newSentinel(t, true, plain(1+replicas), sentinels, args)
}

// NewClockedSentinel is NewDivisibleSentinel with a server for each clock, which is that far ahead of this machine's, or behind
// it if negative. The first one is the master.
func NewClockedSentinel(t testing.TB, sentinels int, clocks ...time.Duration) *Sentinel {
	t.Helper()
	var nodes []starter
	for _, ahead := range clocks {
		nodes = append(nodes, clocked(ahead))
	}
	return newSentinel(t, true, nodes, sentinels, nil)
}

// hide puts a Proxy in front of s, and gives s its address.
func (s *Server) hide(t testing.TB) {
	t.Helper()
	s.door = s.NewProxy(t)
	s.addr = s.door.Addr()
}

// announce makes a node tell the others where its proxies are.
func (c *Cluster) announce(node int) {
	c.t.Helper()
	if !c.divisible {
		return
	}
	bus := newProxy(c.t, net.JoinHostPort("127.0.0.1", c.Nodes[node].real.BusPort()))
	c.buses = append(c.buses, bus)
	_, port, _ := net.SplitHostPort(c.Nodes[node].Addr())
	c.do(node, "CONFIG", "SET", "cluster-announce-port", port)
	c.do(node, "CONFIG", "SET", "cluster-announce-bus-port", c.busPort(node))
}

// busPort is where other nodes find a node.
func (c *Cluster) busPort(node int) string {
	if !c.divisible {
		return c.Nodes[node].real.BusPort()
	}
	_, port, _ := net.SplitHostPort(c.buses[node].Addr())
	return port
}

// announce makes a node tell its master and the Sentinels where its proxy is.
func (s *Sentinel) announce(node int) {
	s.t.Helper()
	if s.divisible {
		_, port, _ := net.SplitHostPort(s.Nodes[node].Addr())
		s.do(node, "CONFIG", "SET", "replica-announce-port", port)
	}
}

// CutOff disconnects a master of a divisible Cluster from all other nodes, including its replicas, until Rejoin. Clients still
// reach it.
func (c *Cluster) CutOff(master int) {
	c.Nodes[master].away.Store(true)
	c.buses[master].Swallow()
	for i, bus := range c.buses {
		if i != master {
			bus.SwallowThose(func(said []byte) bool { return senderOf(said) == c.ids[master] })
		}
	}
	c.Nodes[master].door.SwallowThose(isOfReplica)
}

// Rejoin ends CutOff.
func (c *Cluster) Rejoin(master int) {
	for _, bus := range c.buses {
		bus.Restore()
	}
	c.Nodes[master].door.Restore()
	c.Nodes[master].away.Store(false)
}

// senderOf returns the id of the node that has sent these bytes on the bus of a Cluster. The id follows the lengths, the
// versions and the epochs.
func senderOf(said []byte) string {
	const begin, end = 40, 80
	if len(said) < end {
		return ""
	}
	return string(said[begin:end])
}

// isOfReplica reports whether a replica sends these bytes to its master.
func isOfReplica(said []byte) bool { return bytes.Contains(said, []byte("REPLCONF")) }

// CutOff disconnects a master from the Sentinels and its replicas until Rejoin. Clients still reach it.
func (s *Sentinel) CutOff(master int) {
	s.Nodes[master].away.Store(true)
	s.Nodes[master].door.SwallowThose(func(said []byte) bool {
		return isOfReplica(said) || bytes.Contains(said, []byte("sentinel-"))
	})
}

// Rejoin ends CutOff.
func (s *Sentinel) Rejoin(master int) {
	s.Nodes[master].door.Restore()
	s.Nodes[master].away.Store(false)
}
