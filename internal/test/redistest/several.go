package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// several is servers that know each other, with a connection to each that only this package uses.
type several struct {
	// Nodes are the servers: Kill, Pause, Resume and Restart them like any other.
	Nodes []*Server

	t         testing.TB
	rdb       []*redis.Client
	divisible bool // all traffic of the nodes passes through proxies
}

func (s *several) add(node *Server) int {
	if s.divisible {
		node.hide(s.t)
	}
	s.Nodes = append(s.Nodes, node)
	s.rdb = append(s.rdb, node.NewClient(s.t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }))
	return len(s.Nodes) - 1
}

// living returns the numbers of the nodes that run and are not cut off.
func (s *several) living() (all []int) {
	for i, node := range s.Nodes {
		if !node.away.Load() {
			all = append(all, i)
		}
	}
	return all
}

// try sends a node a command.
func (s *several) try(node int, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // also when the test has ended
	defer cancel()
	return s.rdb[node].Do(ctx, args...).Result()
}

// do is try for a command that must work.
func (s *several) do(node int, args ...any) any {
	s.t.Helper()
	v, err := s.try(node, args...)
	if err != nil {
		s.t.Fatalf("node %d: %v: %v", node, args, err)
	}
	return v
}

// ask is do for a command whose answer is text; "" if the node does not answer.
func (s *several) ask(node int, args ...any) string {
	v, err := s.try(node, args...)
	if err != nil {
		return ""
	}
	return fmt.Sprint(v)
}

// follows returns the address of the master whose data a node has completely; "": it does not.
func (s *several) follows(node int) string {
	info := s.replication(node)
	if info["role"] != "slave" || info["master_link_status"] != "up" || info["master_sync_in_progress"] != "0" {
		return ""
	}
	return net.JoinHostPort(info["master_host"], info["master_port"])
}

// replication returns what a node says about its replication; nothing if it does not answer.
func (s *several) replication(node int) map[string]string {
	return infoFields(s.ask(node, "INFO", "replication"))
}

// AwaitReplicated waits until the replicas of a master have its present data.
func (s *several) AwaitReplicated(master int) {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.Nodes[master].Addr())
	var now int
	await(s.t, "the master says how much data it has", func() (missing string) {
		var err error
		if now, err = strconv.Atoi(s.replication(master)["master_repl_offset"]); err != nil {
			missing = err.Error()
		}
		return missing
	})
	await(s.t, "the replicas have all data", func() string {
		for _, i := range s.living() {
			info := s.replication(i)
			if info["role"] == "master" || info["role"] == "slave" && (info["master_host"] != host || info["master_port"] != port) {
				continue
			}
			has, err := strconv.Atoi(info["slave_repl_offset"])
			if err != nil || has < now || info["master_link_status"] != "up" {
				return fmt.Sprintf("node %d has not", i)
			}
		}
		return ""
	})
}

// infoFields parses the answers of INFO and CLUSTER INFO.
func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// patience is how long several servers may take to agree.
const patience = 3 * time.Minute

// await waits until missing returns nothing.
func await(t testing.TB, what string, missing func() string) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m := missing()
		if m == "" {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: after %v %s", what, patience, m)
		}
	}
}
