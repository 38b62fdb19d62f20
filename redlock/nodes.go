package redlock

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

// mostNodes is how many there may be.
const mostNodes = 15

// checkNodes returns an error that says what is wrong with the nodes.
func checkNodes(nodes []*lockmw.Client) error {
	switch {
	case len(nodes) == 0:
		return invalid("there are no nodes: give it the Clients of three or five servers")
	case len(nodes) > mostNodes:
		return invalid("%d nodes, must be at most %d: three or five are enough", len(nodes), mostNodes)
	}
	for i, c := range nodes {
		switch {
		case c == nil:
			return invalid("node %d is nil: look at the error of lockmw.New", i+1)
		case c.Engine().IsClosing():
			return invalid("node %d is closed: close the Locker before its Clients", i+1)
		case c.Engine().IsCluster():
			return invalid("node %d is a Cluster, which has one set of data: use the Client itself, or servers that know nothing of one another", i+1)
		}
		if err := compare(nodes[0], c, i+1); err != nil {
			return err
		}
		for j, other := range nodes[:i] {
			if isSame(c, other) {
				return invalid("nodes %d and %d are the same server, which has one vote: each node has to be a server of its own", j+1, i+1)
			}
		}
	}
	return nil
}

// compare returns an error if a node has not what the first one has.
func compare(first, c *lockmw.Client, n int) error {
	a, b := first.Engine().Config(), c.Engine().Config()
	p, q := first.Policy(), c.Policy()
	switch {
	case a.Prefix != b.Prefix:
		return invalid("nodes 1 and %d have the prefixes %q and %q: give all Clients the same WithPrefix", n, a.Prefix, b.Prefix)
	case p.Lease != q.Lease || p.Fixed != q.Fixed:
		return invalid("nodes 1 and %d have leases of %v and %v, or one of them is fixed: give all Clients the same WithLease", n, p.Lease, q.Lease)
	case a.Quarantine != b.Quarantine:
		return invalid("nodes 1 and %d have quarantines of %v and %v: give all Clients the same WithQuarantine", n, a.Quarantine, b.Quarantine)
	}
	return nil
}

// isSame reports whether two Clients are certainly of the same server.
func isSame(a, b *lockmw.Client) bool {
	if a == b {
		return true
	}
	ofA, okA := a.Backend()
	ofB, okB := b.Backend()
	if !okA || !okB {
		return false
	}
	if ofA.Redis == ofB.Redis {
		return true
	}
	return addrOf(ofA.Redis) != "" && addrOf(ofA.Redis) == addrOf(ofB.Redis)
}

// addrOf returns the address of a single server; "" if it is not known.
func addrOf(rdb redis.UniversalClient) string {
	c, ok := rdb.(*redis.Client)
	if !ok || c.Options().Addr == "FailoverClient" || strings.HasSuffix(c.Options().Addr, ":0") { // a Dialer leads elsewhere
		return ""
	}
	return c.Options().Addr
}
