package redlock

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// maxNodes limits the number of nodes.
const maxNodes = 15

// enginesOf returns the engines of the Clients, or an error that says why the nodes are invalid.
func enginesOf(nodes []*lockmw.Client) (engines []*engine.Engine, err error) {
	switch {
	case len(nodes) == 0:
		return nil, invalid("no nodes: give it the Clients of three or five servers")
	case len(nodes) > maxNodes:
		return nil, invalid("%d nodes, must be at most %d: three or five are enough", len(nodes), maxNodes)
	}
	var first kinds.Locker
	for i, c := range nodes {
		if c == nil {
			return nil, invalid("node %d is nil: check the error of lockmw.New", i+1)
		}
		node, ok := kinds.Of(c)
		if !ok {
			return nil, invalid("node %d was not made by lockmw.New", i+1)
		}
		if i == 0 {
			first = node
		}
		e := node.Locks().(*engine.Engine)
		switch {
		case e.IsClosing():
			return nil, invalid("node %d is closed: close the Locker before its Clients", i+1)
		case e.Topology().Sharded:
			return nil, invalid("node %d has WithSlottedKeys, so it is several servers with a fencing counter for each slot: use independent servers", i+1)
		case e.Topology().Cluster:
			return nil, invalid("node %d is a Cluster, which is not several independent nodes: use the Client itself, or independent servers", i+1)
		}
		if err := compare(first, node, i+1); err != nil {
			return nil, err
		}
		for j, other := range engines {
			if isSame(e, other) {
				return nil, invalid("nodes %d and %d are the same server, which has one vote: give each node its own server", j+1, i+1)
			}
		}
		engines = append(engines, e)
	}
	return engines, nil
}

// compare returns an error if a node differs from the first one in prefix, lease or quarantine.
func compare(first, node kinds.Locker, n int) error {
	a, b := first.Locks().(*engine.Engine).Config(), node.Locks().(*engine.Engine).Config()
	p, _ := first.Policy()
	q, _ := node.Policy()
	switch {
	case a.Prefix != b.Prefix:
		return invalid("nodes 1 and %d have the prefixes %q and %q: give all Clients the same WithPrefix", n, a.Prefix, b.Prefix)
	case p.Lease != q.Lease || p.Fixed != q.Fixed:
		return invalid("nodes 1 and %d have leases of %v and %v, or only one of them is fixed: give all Clients the same WithLease", n, p.Lease, q.Lease)
	case a.Quarantine != b.Quarantine:
		return invalid("nodes 1 and %d have quarantines of %v and %v: give all Clients the same WithQuarantine", n, a.Quarantine, b.Quarantine)
	}
	return nil
}

// isSame reports whether two nodes are certainly the same server.
func isSame(a, b *engine.Engine) bool {
	ofA, ofB := a.Backend().Redis, b.Backend().Redis
	return ofA == ofB || addrOf(ofA) != "" && addrOf(ofA) == addrOf(ofB)
}

// addrOf returns the address of a single server; "" if it is not known.
func addrOf(rdb redis.UniversalClient) string {
	c, ok := rdb.(*redis.Client)
	if !ok || c.Options().Addr == "FailoverClient" || strings.HasSuffix(c.Options().Addr, ":0") { // a Dialer decides where to connect
		return ""
	}
	return c.Options().Addr
}
