package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// masters returns the servers that hold locks. There is at least one.
func (e *examination) masters() []*server {
	return slices.DeleteFunc(slices.Clone(e.servers), func(s *server) bool { return s.replica })
}

// replicas returns the INFO fields of each replica of a server: ip, port, state.
func (s *server) replicas() (all []map[string]string) {
	for i := 0; ; i++ {
		line, found := s.info[fmt.Sprintf("slave%d", i)]
		if !found {
			return all
		}
		fields := make(map[string]string)
		for field := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		all = append(all, fields)
	}
}

func (e *examination) checkReplicas(ctx context.Context) {
	if e.topology.Sharded {
		e.note(Unknown, "", "a proxy shows no replicas: a fail-over may lose the newest locks and idempotency records")
		return
	}
	e.each(e.masters(), func(s *server) {
		n := s.number("connected_slaves")
		least := s.config(ctx, "min-replicas-to-write")
		var behind []string
		for _, r := range s.replicas() {
			if r["state"] != "online" {
				behind = append(behind, r["ip"]+":"+r["port"]+" is in state "+r["state"])
			}
		}
		switch {
		case s.info["connected_slaves"] == "":
			e.noteOf(s, Unknown, "", "INFO lacks the number of replicas")
		case len(behind) > 0:
			e.noteOf(s, Warning, "wait until it is online before a fail-over", "a replica is not in sync: %s", strings.Join(behind, "; "))
		case n == 0 && e.topology.Cluster:
			e.noteOf(s, Warning, "give each master a replica", "none: while this master is down, the locks of its slots are unavailable")
		case n == 0 && e.topology.IsReplaceable():
			e.noteOf(s, Warning, "start a replica, or connect it to this master", "none is connected: the Sentinels have no replica to promote when this master fails")
		case n == 0:
			e.noteOf(s, OK, "", "none: no fail-over can lose locks, but while the server is down no lock is available")
		case least == "":
			e.noteOf(s, Advice, "WithReplicas(1, …) prevents two holders after a fail-over; min-replicas-to-write 1 stops a master that is cut off",
				"%d, and CONFIG GET does not show min-replicas-to-write: a fail-over may lose the newest locks and idempotency records", n)
		case least == "0":
			e.noteOf(s, Advice, "WithReplicas(1, …) prevents two holders after a fail-over; min-replicas-to-write 1 stops a master that is cut off",
				"%d, and the master accepts writes without them: a fail-over may lose the newest locks and idempotency records", n)
		default:
			e.noteOf(s, OK, "", "%d, min-replicas-to-write is %s", n, least)
		}
	})
}

// replicaPatience is the time in which a replica must give all its answers.
const replicaPatience = 2 * time.Second

// findReplicas adds the replicas of a server outside a Cluster, at the addresses in its INFO, and their own replicas.
func (e *examination) findReplicas(ctx context.Context, of *server) {
	replicas := of.replicas()
	if len(replicas) == 0 {
		return
	}
	c, ok := e.rdb.(interface{ Options() *redis.Options })
	if !ok {
		e.absent += len(replicas)
		e.unreached = append(e.unreached, Finding{Check: "connection", Verdict: Unknown,
			Saw: fmt.Sprintf("replicas are not checked, because a Redis client of type %T does not show its options: %d", e.rdb, len(replicas))})
		return
	}
	found, failed := make([]*server, len(replicas)), make([]error, len(replicas))
	var asked sync.WaitGroup
	for i, r := range replicas {
		addr := net.JoinHostPort(r["ip"], r["port"])
		if e.knows(addr) {
			continue
		}
		client := redis.NewClient(e.replicaOptions(c.Options(), addr))
		e.opened = append(e.opened, client)
		found[i] = &server{addr: addr, client: client, replica: true}
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, replicaPatience)
			defer cancel()
			failed[i] = found[i].ask(ctx)
		})
	}
	asked.Wait()
	for i, s := range found {
		if s != nil && !e.knows(s.addr) {
			e.add(s, failed[i])
		}
	}
	for _, s := range found {
		if s != nil {
			e.findReplicas(ctx, s)
		}
	}
}

// replicaOptions returns the options of the master's client, changed to reach a replica.
func (e *examination) replicaOptions(master *redis.Options, addr string) *redis.Options {
	o := *master
	o.Network, o.Addr, o.DB = "tcp", addr, 0
	o.PoolSize, o.MinIdleConns, o.MaxRetries, o.DialerRetries = 1, 0, -1, 1
	if !e.topology.Single {
		o.Dialer = nil // Sentinel's dialer ignores the address and dials the master
	}
	return &o
}

func (e *examination) knows(addr string) bool {
	return slices.ContainsFunc(e.servers, func(s *server) bool { return s.addr == addr })
}

// add adds a server, or, after an error, a finding that a replica does not answer.
func (e *examination) add(s *server, err error) {
	if err == nil {
		e.servers = append(e.servers, s)
		return
	}
	e.absent++
	e.unreached = append(e.unreached, Finding{
		Check: "connection", Verdict: Unknown, Server: s.addr, Remedy: Remedy(err),
		Saw: fmt.Sprintf("a replica is not checked, because it does not answer: %v", err),
	})
}

func (e *examination) close() {
	for _, c := range e.opened {
		_ = c.Close()
	}
}
