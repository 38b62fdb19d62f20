package redistest

import (
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redisserver"
)

// slots is how many slots a Cluster has.
const slots = 16384

// A Cluster is real servers that share the slots. It is not safe for concurrent use, but its clients are.
type Cluster struct {
	several

	args  []string
	ids   []string
	moves map[int]int  // where a slot moves to
	lag   map[int]bool // nodes that no longer receive their master's data
	buses []*Proxy     // of a divisible Cluster: where the nodes talk to each
}

// NewCluster starts a Cluster, stopped when the test ends. Its Nodes are the masters, then the replicas of the first, of the
// second, and so on. A master that is unreachable for 2 s is replaced. args are added to the nodes' command lines. It takes 2 to
// 4 s.
func NewCluster(t testing.TB, masters, replicas int, args ...string) *Cluster {
	t.Helper()
	return newCluster(t, false, masters, replicas, args)
}

func newCluster(t testing.TB, divisible bool, masters, replicas int, args []string) *Cluster {
	t.Helper()
	c := &Cluster{several: several{t: t, divisible: divisible}, moves: make(map[int]int), lag: make(map[int]bool)}
	c.args = append([]string{
		"--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0",
	}, args...)
	for range masters * (1 + replicas) {
		c.start()
	}
	for i := range masters {
		own := []any{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE needs Redis 7.0
		for slot := slots * i / masters; slot < slots*(i+1)/masters; slot++ {
			own = append(own, slot)
		}
		c.do(i, own...)
	}
	c.meet()
	for i := masters; i < len(c.Nodes); i++ {
		c.do(i, "CLUSTER", "REPLICATE", c.ids[(i-masters)/replicas])
	}
	c.AwaitSettled()
	return c
}

// start starts a node that does not know the others yet.
func (c *Cluster) start() (node int) {
	c.t.Helper()
	node = c.add(startReal(c.t, redisserver.StartNode, c.args))
	c.announce(node)
	c.ids = append(c.ids, fmt.Sprint(c.do(node, "CLUSTER", "MYID")))
	c.do(node, "CLUSTER", "SET-CONFIG-EPOCH", node+1)
	return node
}

// Grow adds a master, which has no slots yet, and a replica of it.
func (c *Cluster) Grow() (master int) {
	c.t.Helper()
	master = c.start()
	replica := c.start()
	c.meet()
	c.do(replica, "CLUSTER", "REPLICATE", c.ids[master])
	c.AwaitSettled()
	return master
}

// meet introduces all nodes to each other. This is faster than their own discovery.
func (c *Cluster) meet() {
	c.t.Helper()
	for i, node := range c.Nodes {
		host, port, _ := net.SplitHostPort(node.Addr())
		for j := range i {
			c.do(j, "CLUSTER", "MEET", host, port, c.busPort(i))
		}
	}
	await(c.t, "the nodes meet", func() string {
		for i := range c.Nodes {
			if known := c.view(i); len(known) != len(c.Nodes) || slices.ContainsFunc(known, member.lost) {
				return fmt.Sprintf("node %d knows %+v", i, known)
			}
		}
		return ""
	})
}

// Client returns a client of the Cluster, closed when the test ends.
func (c *Cluster) Client(t testing.TB, edit ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	opts := &redis.ClusterOptions{Addrs: c.Addrs()}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Addrs are the hosts and ports of all nodes.
func (c *Cluster) Addrs() (all []string) {
	for _, node := range c.Nodes {
		all = append(all, node.Addr())
	}
	return all
}

// A member is a node in the view of a node.
type member struct {
	id     string
	flags  []string
	master string // id of its master; "-": it is a master
	epoch  int
	linked bool
	slots  [][2]int
}

func (m member) has(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

func (m member) is(flag string) bool { return slices.Contains(m.flags, flag) }

// lost reports whether a member is unreachable, or may be.
func (m member) lost() bool { return !m.linked || m.is("handshake") || m.is("noaddr") }

// view returns all members in the view of a node; nothing if it does not answer.
func (c *Cluster) view(node int) (all []member) {
	for line := range strings.Lines(c.ask(node, "CLUSTER", "NODES")) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		m := member{id: f[0], flags: strings.Split(f[2], ","), master: f[3], linked: f[7] == "connected"}
		m.epoch, _ = strconv.Atoi(f[6])
		for _, r := range f[8:] {
			first, last, two := strings.Cut(r, "-")
			if !two {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 == nil && err2 == nil { // otherwise the field describes a moving slot
				m.slots = append(m.slots, [2]int{from, to})
			}
		}
		all = append(all, m)
	}
	return all
}

// self returns a node's view of itself.
func (c *Cluster) self(node int) member {
	for _, m := range c.view(node) {
		if m.is("myself") {
			return m
		}
	}
	return member{}
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	slot, _ := c.do(c.living()[0], "CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Owner returns the number of the node that owns the slot of a key.
func (c *Cluster) Owner(key string) int {
	c.t.Helper()
	node := c.ownerOf(c.Slot(key))
	if node < 0 {
		c.t.Fatalf("no running node owns the slot of %q", key)
	}
	return node
}

// ownerOf returns the running node that owns a slot in its own view; -1: there is none.
func (c *Cluster) ownerOf(slot int) int {
	owner, epoch := -1, -1
	for _, i := range c.living() {
		if m := c.self(i); m.is("master") && m.has(slot) && m.epoch > epoch {
			owner, epoch = i, m.epoch
		}
	}
	return owner
}

// Replicas returns the numbers of the running nodes that replicate a node.
func (c *Cluster) Replicas(node int) (all []int) {
	for _, i := range c.living() {
		if c.self(i).master == c.ids[node] {
			all = append(all, i)
		}
	}
	return all
}

// KeyAt returns a new key in a slot of a node.
func (c *Cluster) KeyAt(node int) string {
	c.t.Helper()
	m := c.self(node)
	for range slots {
		if key := rand.Text(); m.has(c.Slot(key)) {
			return key
		}
	}
	c.t.Fatalf("node %d has no slots", node)
	return ""
}

// AwaitSettled waits until the running nodes agree on the slots, and the replicas have all data.
func (c *Cluster) AwaitSettled() {
	c.t.Helper()
	await(c.t, "the nodes agree", func() string {
		var first string
		for _, i := range c.living() {
			if info := infoFields(c.ask(i, "CLUSTER", "INFO")); info["cluster_state"] != "ok" {
				return fmt.Sprintf("node %d: %v", i, info)
			}
			self := c.self(i)
			if self.is("slave") && !c.lag[i] && c.follows(i) == "" {
				return fmt.Sprintf("node %d does not follow its master", i)
			}
			shared := c.distribution(i)
			if first == "" {
				first = shared
			}
			if first != shared {
				return fmt.Sprintf("node %d has %s, another one %s", i, shared, first)
			}
		}
		return ""
	})
}

// distribution returns a node's view of slots, their epochs and replicas as text, which is equal if nodes agree. A node that
// takes a slot before it knows another one's epoch may lose the slot again. Nodes that do not run do not count.
func (c *Cluster) distribution(node int) string {
	var lines []string
	for _, m := range c.view(node) {
		if i := slices.Index(c.ids, m.id); i >= 0 && !c.Nodes[i].away.Load() {
			lines = append(lines, fmt.Sprintf("%d: %v since %d of %s, failing %t", i, m.slots, m.epoch, m.master, m.is("fail") || m.is("fail?")))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
