package quorum_test

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// script has a node answer scripts as a test says. It never answers those that look for a proxy, of which there are many.
func (b *bubble) script(node int) {
	b.Helper()
	conn, err := b.nodes[node].Mini.Dial() // which starts it
	if err != nil {
		b.Fatal(err)
	}
	_ = conn.Close()
	b.nodes[node].Mini.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "EVALSHA" && cmd != "EVAL" {
			return false
		}
		b.mu.Lock()
		refusal, forbidden := b.refusals[node], b.forbidden[node]
		b.mu.Unlock()
		if forbidden != "" && slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, forbidden) }) {
			refusal = "NOPERM No permissions to access a key"
		}
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "lockmw:probe:") }) {
			refusal = "ERR no"
		}
		if refusal != "" {
			c.WriteError(refusal)
		}
		return refusal != ""
	})
}

// An occupation is the hold of a stranger at a single node.
type occupation struct {
	b    *bubble
	hold core.Hold
}

// occupy has strangers hold a key at each of the nodes, as bids of others do for a moment.
func (b *bubble) occupy(key string, nodes ...int) (all []*occupation) {
	b.Helper()
	for _, i := range nodes {
		r := &core.Request{Key: key, Mode: core.Exclusive, Owner: strings.Repeat("b", 32), Lease: time.Hour, Fixed: true, Events: new(calling)}
		hold, err := b.engine(b.nodes[i]).Acquire(b.Context(), r)
		if err != nil {
			b.Fatalf("node %d: %v", i, err)
		}
		all = append(all, &occupation{b, hold})
	}
	return all
}

// end frees the node.
func (o *occupation) end() {
	o.b.Helper()
	if _, err := o.hold.Release(time.Minute); err != nil {
		o.b.Errorf("a stranger's release: %v", err)
	}
	synctest.Wait()
}

// refuse has a node answer each script with an error; "" ends that.
func (b *bubble) refuse(node int, answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals[node] = answer
}

// forbid has a node answer scripts for a key as if the user had no right to it.
func (b *bubble) forbid(node int, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forbidden[node] = "{" + key + "}"
}

// caught returns when the fault has met its command.
func (b *bubble) caught(f *redistest.Fault) {
	b.Helper()
	select {
	case <-f.Caught():
	case <-time.After(time.Minute):
		b.Fatal("the command is not sent")
	}
}

// holding returns the nodes that have granted the key to somebody.
func (b *bubble) holding(key string) (nodes []int) {
	return b.having("lockmw:{" + key + "}")
}

// queueing returns the nodes at which somebody waits for the key.
func (b *bubble) queueing(key string) (nodes []int) {
	return b.having("lockmw:{" + key + "}:queue")
}

func (b *bubble) having(redisKey string) (nodes []int) {
	for i, s := range b.nodes {
		if s.Mini.Exists(redisKey) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// token is what a node shows as the token of the holder.
func (b *bubble) token(node int, key string) int64 {
	n, _ := strconv.ParseInt(b.nodes[node].Mini.HGet("lockmw:{"+key+"}", "token"), 10, 64)
	return n
}

// counter is the greatest token that a node knows.
func (b *bubble) counter(node int) int64 {
	text, _ := b.nodes[node].Mini.Get("lockmw:fence")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// setCounter sets it, to one that is ahead of the node's clock.
func (b *bubble) setCounter(node int, ahead time.Duration) (token int64) {
	b.Helper()
	token = time.Now().Add(ahead).UnixMicro()
	if err := b.nodes[node].Mini.Set("lockmw:fence", strconv.FormatInt(token, 10)); err != nil {
		b.Fatal(err)
	}
	return token
}

// order returns the nodes in the order in which calls for the key wait for them.
func (b *bubble) order(key string) (nodes []int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	for i := range b.nodes {
		nodes = append(nodes, (int(h.Sum32()%uint32(len(b.nodes)))+i)%len(b.nodes))
	}
	return nodes
}
