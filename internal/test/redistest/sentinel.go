package redistest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redisserver"
)

// MasterName is the name of the master in the Sentinels.
const MasterName = "mymaster"

// A Sentinel is a real master with replicas, and Sentinels that replace a master that is unreachable for 2 s. It is not safe
// for concurrent use, but its clients are.
type Sentinel struct {
	several // the first one is the first master

	Sentinels []*Server

	watchers []*redis.SentinelClient
}

// NewSentinel starts a master, replicas and Sentinels, stopped when the test ends. args are added to the command lines
// of the master and the replicas. It takes 2 s.
func NewSentinel(t testing.TB, replicas, sentinels int, args ...string) *Sentinel {
	t.Helper()
	return newSentinel(t, false, plain(1+replicas), sentinels, args)
}

// plain starts n servers without their own clocks.
func plain(n int) []starter { return slices.Repeat([]starter{redisserver.Start}, n) }

func newSentinel(t testing.TB, divisible bool, nodes []starter, sentinels int, args []string) *Sentinel {
	t.Helper()
	s := &Sentinel{several: several{t: t, divisible: divisible}}
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	for _, start := range nodes {
		s.announce(s.add(startReal(t, start, args)))
	}
	host, port, _ := net.SplitHostPort(s.Nodes[0].Addr())
	for i := range s.Nodes[1:] {
		s.do(1+i, "REPLICAOF", host, port)
	}
	await(t, "replicas follow the master", func() string { return s.lagging(0) })
	for range sentinels {
		s.watch(host, port, sentinels/2+1)
	}
	s.AwaitSettled()
	return s
}

// watch starts a Sentinel. It checks the others often, and also works on a busy machine. Four times the publish period must be
// longer than a promotion takes; otherwise the other Sentinels undo the promotion. A replica is promoted only if it has
// reported within five ping periods, and it is asked once a second.
func (s *Sentinel) watch(host, port string, quorum int) {
	s.t.Helper()
	server := startReal(s.t, redisserver.StartSentinel, []string{
		fmt.Sprintf("sentinel monitor %s %s %s %d", MasterName, host, port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s 2000", MasterName),
		fmt.Sprintf("sentinel failover-timeout %s 10000", MasterName),
	})
	c := redis.NewSentinelClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	s.t.Cleanup(func() { _ = c.Close() })
	s.Sentinels, s.watchers = append(s.Sentinels, server), append(s.watchers, c)
	tune := redis.NewStatusCmd(context.Background(), "SENTINEL", "DEBUG",
		"PING-PERIOD", "300", "ASK-PERIOD", "100", "PUBLISH-PERIOD", "1000", "INFO-PERIOD", "1000", "TILT-TRIGGER", "60000")
	err := c.Process(context.Background(), tune)
	if err != nil && !strings.Contains(strings.ToLower(err.Error()), "unknown") { // before Redis 7.0 the periods are fixed
		s.t.Fatalf("a Sentinel's periods: %v", err)
	}
}

// Client returns a client of the current master, closed when the test ends.
func (s *Sentinel) Client(t testing.TB, edit ...func(*redis.FailoverOptions)) *redis.Client {
	opts := &redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs()}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewFailoverClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Addrs returns the hosts and ports of the Sentinels.
func (s *Sentinel) Addrs() (all []string) {
	for _, server := range s.Sentinels {
		all = append(all, server.Addr())
	}
	return all
}

// Master returns the number of the node that is the master in the Sentinels.
func (s *Sentinel) Master() int {
	s.t.Helper()
	node, missing := s.elected()
	if node < 0 {
		s.t.Fatal(missing)
	}
	return node
}

// elected returns the node that all running Sentinels consider the master; otherwise -1, and what is missing. A Sentinel names a
// new master to clients that ask before it tells the others that listen: then elected still returns the old one.
func (s *Sentinel) elected() (node int, missing string) {
	node = -1
	for i, server := range s.Sentinels {
		if server.away.Load() {
			continue
		}
		state, err := s.watchers[i].Master(context.Background(), MasterName).Result()
		if err != nil {
			return -1, fmt.Sprintf("Sentinel %d: %v", i, err)
		}
		at := net.JoinHostPort(state["ip"], state["port"])
		named := slices.IndexFunc(s.Nodes, func(n *Server) bool { return n.Addr() == at })
		if node >= 0 && named != node {
			return -1, "the Sentinels do not agree"
		}
		node = named
	}
	return node, "no Sentinel runs"
}

// SetDownAfter sets how long a master must be unreachable before it is replaced.
func (s *Sentinel) SetDownAfter(d time.Duration) {
	s.t.Helper()
	for _, c := range s.watchers {
		if err := c.Set(context.Background(), MasterName, "down-after-milliseconds", strconv.FormatInt(d.Milliseconds(), 10)).Err(); err != nil {
			s.t.Fatalf("a Sentinel's patience: %v", err)
		}
	}
}

// Failover makes the Sentinels promote a replica although the master is reachable, and returns the new master's number. Writes
// that the old master had not sent to the replica are lost.
func (s *Sentinel) Failover() (promoted int) {
	s.t.Helper()
	old := s.Master()
	// On a busy machine a Sentinel gives up after its failover-timeout. It repeats only what an unreachable master requires.
	await(s.t, "a replica is promoted", func() string {
		var missing string
		if promoted, missing = s.promoted(old); promoted == old {
			missing = cmp.Or(s.askForFailover(old), missing)
		}
		return missing
	})
	return promoted
}

// askForFailover asks a Sentinel, which is always the same one while it runs, to replace a master, unless it does so or has done
// so: another fail-over would replace the new one. It returns why that was refused.
func (s *Sentinel) askForFailover(old int) (refused string) {
	for i, server := range s.Sentinels {
		if server.away.Load() {
			continue
		}
		state, err := s.watchers[i].Master(context.Background(), MasterName).Result()
		switch {
		case err != nil:
			return err.Error()
		case net.JoinHostPort(state["ip"], state["port"]) != s.Nodes[old].Addr(), strings.Contains(state["flags"], "failover_in_progress"):
			return ""
		}
		if err := s.watchers[i].Failover(context.Background(), MasterName).Err(); err != nil {
			return err.Error()
		}
		return ""
	}
	return "no Sentinel runs"
}

// AwaitPromoted waits until the Sentinels have a new master, and it knows. It returns the new master's number.
func (s *Sentinel) AwaitPromoted(old int) (promoted int) {
	s.t.Helper()
	await(s.t, "a replica is promoted", func() string {
		var missing string
		promoted, missing = s.promoted(old)
		return missing
	})
	return promoted
}

// promoted returns the master of the Sentinels, and what is missing until it has replaced the old one.
func (s *Sentinel) promoted(old int) (node int, missing string) {
	node, missing = s.elected()
	switch {
	case node < 0:
		return node, missing
	case node == old:
		return node, "the master is the old one"
	case s.replication(node)["role"] != "master":
		return node, "the new master does not know its role"
	}
	return node, ""
}

// AwaitSettled waits until the running nodes follow one master, and all Sentinels know all nodes and each other.
func (s *Sentinel) AwaitSettled() {
	s.t.Helper()
	await(s.t, "the Sentinels agree", func() string {
		master, missing := s.elected()
		if master < 0 {
			return missing
		}
		if missing := s.lagging(master); missing != "" {
			return missing
		}
		return s.unknown()
	})
}

// lagging names a running node that does not have the master's data.
func (s *Sentinel) lagging(master int) string {
	for _, i := range s.living() {
		if i != master && s.follows(i) != s.Nodes[master].Addr() {
			return fmt.Sprintf("node %d does not follow node %d", i, master)
		}
	}
	return ""
}

// unknown names what a running Sentinel does not know yet.
func (s *Sentinel) unknown() string {
	for i, server := range s.Sentinels {
		if server.away.Load() {
			continue
		}
		state, err := s.watchers[i].Master(context.Background(), MasterName).Result()
		switch {
		case err != nil:
			return err.Error()
		case state["flags"] != "master",
			state["num-other-sentinels"] != strconv.Itoa(len(s.Sentinels)-1),
			state["num-slaves"] != strconv.Itoa(len(s.Nodes)-1):
			return fmt.Sprintf("Sentinel %d: %v", i, state)
		}
		replicas, err := s.watchers[i].Replicas(context.Background(), MasterName).Result()
		if err != nil {
			return err.Error()
		}
		running := 0
		for _, r := range replicas {
			if r["flags"] == "slave" && r["master-link-status"] == "ok" {
				running++
			}
		}
		if running != len(s.living())-1 {
			return fmt.Sprintf("Sentinel %d: %v", i, replicas)
		}
	}
	return ""
}
