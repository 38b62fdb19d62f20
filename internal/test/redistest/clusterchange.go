package redistest

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// BeginMove begins to move the slot of a key from its owner to another master, whose number it returns. No key is moved:
// existing keys stay, and missing ones belong to the other node from now on.
func (c *Cluster) BeginMove(key string) (to int) {
	c.t.Helper()
	slot, from := c.Slot(key), c.Owner(key)
	to = -1
	for _, i := range c.living() {
		if i != from && c.self(i).is("master") && (to < 0 || i > from && to < from) { // the next one
			to = i
		}
	}
	if to < 0 {
		c.t.Fatal("there is no other master")
	}
	c.setSlot(to, slot, "IMPORTING", from)
	c.setSlot(from, slot, "MIGRATING", to)
	c.moves[slot] = to
	return to
}

// setSlot changes the state of a slot at a node. The node may learn a moment later than others that the other node is a master.
func (c *Cluster) setSlot(node, slot int, state string, other int) {
	c.t.Helper()
	await(c.t, "a slot begins to move", func() (missing string) {
		if _, err := c.try(node, "CLUSTER", "SETSLOT", slot, state, c.ids[other]); err != nil {
			missing = err.Error()
		}
		return missing
	})
}

// MoveKeys moves some of the keys in a slot whose move has begun.
func (c *Cluster) MoveKeys(keys ...string) {
	c.t.Helper()
	c.migrate(c.Owner(keys[0]), c.moves[c.Slot(keys[0])], keys)
}

func (c *Cluster) migrate(from, to int, keys []string) {
	c.t.Helper()
	host, port, _ := net.SplitHostPort(c.Nodes[to].Addr())
	args := []any{"MIGRATE", host, port, "", 0, patience.Milliseconds(), "KEYS"}
	for _, k := range keys {
		args = append(args, k)
	}
	c.do(from, args...)
}

// FinishMove ends what BeginMove began: it moves the remaining keys, and then the slot. When it returns, all nodes know.
func (c *Cluster) FinishMove(key string) {
	c.t.Helper()
	slot, from := c.Slot(key), c.Owner(key)
	to := c.moves[slot]
	for {
		var keys []string
		left, _ := c.do(from, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		for _, k := range left {
			keys = append(keys, fmt.Sprint(k))
		}
		if len(keys) == 0 {
			break
		}
		c.migrate(from, to, keys)
	}
	c.do(to, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	await(c.t, "the old owner knows the new one", func() string { // from the new one itself: otherwise it does not know its epoch
		if c.self(from).has(slot) {
			return "it has not"
		}
		return ""
	})
	c.do(from, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	delete(c.moves, slot)
	c.AwaitSettled()
}

// Move moves the slot of a key, with its keys, to another master, whose number it returns.
func (c *Cluster) Move(key string) (to int) {
	c.t.Helper()
	to = c.BeginMove(key)
	c.FinishMove(key)
	return to
}

// failoverTime is how long a replica and its master try a fail-over: on a busy machine their messages may be late.
const failoverTime = 10 * time.Second

// Depose promotes a replica of the master that owns a key's slot, without a loss of data. The old master becomes its replica.
// It returns the new master.
func (c *Cluster) Depose(key string) (promoted int) {
	c.t.Helper()
	old := c.Owner(key)
	replicas := c.Replicas(old)
	if len(replicas) == 0 {
		c.t.Fatalf("node %d has no replica", old)
	}
	slot, asked := c.Slot(key), time.Time{}
	await(c.t, "the replica takes over", func() string {
		if owner := c.ownerOf(slot); owner >= 0 && owner != old {
			return ""
		}
		if time.Since(asked) > failoverTime {
			if _, err := c.try(replicas[0], "CLUSTER", "FAILOVER"); err != nil { // its link to the master is down, or it is a master now
				return err.Error()
			}
			asked = time.Now()
		}
		return "it has not"
	})
	c.AwaitPromoted(key, old)
	c.AwaitSettled()
	return replicas[0]
}

// AwaitPromoted waits until a node other than the old one owns a key's slot and all running nodes know it. It returns the new
// master.
func (c *Cluster) AwaitPromoted(key string, old int) (promoted int) {
	c.t.Helper()
	slot := c.Slot(key)
	await(c.t, "a replica is promoted", func() string {
		promoted = c.ownerOf(slot)
		if promoted < 0 || promoted == old {
			return fmt.Sprintf("the owner is %d", promoted)
		}
		for _, i := range c.living() {
			for _, m := range c.view(i) {
				if m.has(slot) && m.id != c.ids[promoted] {
					return fmt.Sprintf("node %d names a different owner", i)
				}
			}
		}
		return ""
	})
	return promoted
}

// Starve stops the replicas of a master from receiving its data. They still take part in the Cluster, and may be promoted.
func (c *Cluster) Starve(master int) {
	c.t.Helper()
	c.do(master, "CONFIG", "SET", "repl-diskless-sync", "yes", "repl-diskless-sync-delay", 3600, "repl-backlog-size", 16<<10)
	replicas := c.Replicas(master)
	for _, i := range replicas {
		c.lag[i] = true
		c.Nodes[i].Pause(c.t)
	}
	c.do(master, "CLIENT", "KILL", "TYPE", "replica")
	key := c.KeyAt(master)
	c.do(master, "SET", key, strings.Repeat("x", 1<<20)) // what they missed is no longer in the backlog
	c.do(master, "DEL", key)
	for _, i := range replicas {
		c.Nodes[i].Resume(c.t)
	}
	await(c.t, "its replicas wait for all data", func() string {
		return strings.TrimPrefix(fmt.Sprint("replicas are online: ", c.ask(master, "WAIT", 1, 1)), "replicas are online: 0")
	})
}
