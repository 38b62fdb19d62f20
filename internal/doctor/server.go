package doctor

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/transport"
)

// A server is a master, which holds locks, or a replica.
type server struct {
	addr    string
	client  redis.Cmdable
	info    map[string]string // fields of INFO; nil: unknown
	infoErr error
	replica bool
}

// config returns a setting of a server; "" if CONFIG GET is denied.
func (s *server) config(ctx context.Context, name string) string {
	return s.client.ConfigGet(ctx, name).Val()[name]
}

// number returns a numeric field of INFO; 0 if it is missing.
func (s *server) number(field string) int64 {
	n, _ := strconv.ParseInt(s.info[field], 10, 64)
	return n
}

// connect finds the servers and checks that they answer.
func (e *examination) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	var err error
	if e.topology, err = transport.TopologyOf(e.rdb, e.options.Prefix, e.options.SlottedKeys); err == nil {
		err = e.findServers(ctx)
	}
	if err != nil {
		e.note(Failure, Remedy(err), "%v", err)
		return
	}
	masters := len(e.masters())
	replicas := len(e.servers) - masters
	switch {
	case e.topology.Sharded:
		e.note(OK, "", "the proxy answers")
	case e.topology.Cluster:
		e.note(OK, "", "a Cluster of %d masters and %d replicas answers", masters, replicas)
	case replicas > 0:
		e.note(OK, "", "a master and its replicas answer: %d", replicas)
	case !e.topology.Single:
		e.note(OK, "", "the master of the Sentinels answers")
	default:
		e.note(OK, "", "one server answers")
	}
	e.findings = append(e.findings, e.unreached...)
}

func (e *examination) findServers(ctx context.Context) error {
	cluster := transport.ClusterOf(e.rdb)
	if cluster == nil {
		s := &server{client: e.rdb}
		if c, ok := e.rdb.(interface{ Options() *redis.Options }); ok {
			s.addr = c.Options().Addr
		}
		e.servers = []*server{s}
		if err := s.ask(ctx); err != nil {
			return err
		}
		if !e.topology.Sharded { // otherwise each INFO may come from another server
			e.findReplicas(ctx, s)
		}
		return nil
	}
	var mu sync.Mutex
	add := func(replica bool) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error {
			s := &server{client: c, addr: c.Options().Addr, replica: replica}
			err := s.ask(ctx)
			if err != nil && !replica {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			e.add(s, err)
			return nil
		}
	}
	if err := cluster.ForEachMaster(ctx, add(false)); err != nil {
		return err
	}
	if c, ok := cluster.(interface {
		ForEachSlave(context.Context, func(context.Context, *redis.Client) error) error
	}); ok {
		_ = c.ForEachSlave(ctx, add(true)) // add fails for masters only
	}
	slices.SortFunc(e.servers, func(a, b *server) int { return strings.Compare(a.addr, b.addr) })
	if len(e.masters()) == 0 {
		return errors.New("the Cluster has no masters")
	}
	return nil
}

// ask reads INFO. It fails only if the server does not answer.
func (s *server) ask(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return err
	}
	s.info, s.infoErr = transport.ReadInfo(ctx, s.client) // INFO may be denied
	return nil
}

// checkServers checks the software of the servers.
func (e *examination) checkServers(context.Context) {
	for _, s := range e.servers {
		name, version := transport.Software(s.info)
		numbers := append(strings.Split(version, "."), "0")
		major, _ := strconv.Atoi(numbers[0])
		minor, _ := strconv.Atoi(numbers[1])
		switch {
		case s.info == nil:
			e.noteOf(s, Unknown, "allow +info for more checks", "INFO: %v", s.infoErr)
		case s.info["redis_mode"] == "sentinel" || s.info["server_mode"] == "sentinel":
			e.noteOf(s, Failure, "use a URL for Sentinel", "this is a Sentinel, which holds no data")
		case version == "":
			e.noteOf(s, Unknown, "", "INFO lacks the version")
		case name != "redis" && name != "valkey":
			e.noteOf(s, Warning, "test it well: lockmw is tested with Redis and Valkey", "%s %s", name, version)
		case name == "redis" && major < 6:
			e.noteOf(s, Failure, "use Redis 6 or later, or Valkey", "redis %s", version)
		case name == "redis" && major == 6 && minor < 2 && e.options.Asynq:
			e.noteOf(s, Failure, "use Redis 6.2 or later, or Valkey", "asynq cannot archive a task on redis %s, which lacks ZRANGE with BYSCORE", version)
		default:
			e.noteOf(s, OK, "", "%s %s", name, version)
		}
	}
	e.noteSame(e.servers)
}

// checkAddress checks that the address leads to one server; with WithSlottedKeys, to one server for each key. A proxy may spread
// connections over several.
func (e *examination) checkAddress(ctx context.Context) {
	if e.topology.Cluster {
		e.checkSlots(ctx)
		return
	}
	client, ok := e.rdb.(interface{ Conn() *redis.Conn })
	if !ok {
		e.note(Unknown, "", "a Redis client of type %T does not show its connections", e.rdb)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	const alone = "calls share no commands, and LockAll takes one lock after the other"
	ids, connections := e.runIDs(ctx, client)
	switch {
	case len(ids) == 1 && connections < 2:
		e.note(Unknown, "check the connections that the client and the server allow, and how long the server takes to accept one",
			"no second connection within a second: unknown whether the address leads to one server")
	case len(ids) == 1 && e.topology.Sharded:
		e.note(OK, "", "leads to one server for a key, on %d connections", connections)
	case len(ids) == 0 && e.servers[0].info == nil:
		e.note(Unknown, "allow +info for more checks", "unknown whether the address leads to one server, so "+alone)
	case len(ids) == 0:
		e.note(Unknown, "connect without a proxy if there is one", "INFO shows no run_id: unknown whether the address leads to one server, so "+alone)
	case len(ids) > 1:
		e.note(Failure, "use the address of one server, or a client for Sentinel or a Cluster",
			"the address leads to %d servers in turn: two callers could hold one lock", len(ids))
	case !e.options.ReadOnly && !transport.IsOneServer(ctx, e.rdb, e.options.Prefix):
		e.note(Advice, "", "leads to one server, on %d connections, but scripts cannot show that by the run_id in INFO, so "+alone, connections)
	default:
		e.note(OK, "", "leads to one server, on %d connections", connections)
	}
}

// checkSlots checks that all slots have a master, as each server sees it. The state of a Cluster without
// cluster-require-full-coverage is ok even if some have none.
func (e *examination) checkSlots(ctx context.Context) {
	const remedy = "assign all slots, or start the missing masters"
	var down, partial []string
	var unread error
	for _, s := range e.servers {
		state, err := s.client.ClusterInfo(ctx).Result()
		served := clusterSlots.FindStringSubmatch(state)
		switch {
		case err != nil:
			unread = err
		case !strings.Contains(state, "cluster_state:ok"):
			down = append(down, s.addr)
		case len(served) == 2 && served[1] != "16384":
			partial = append(partial, s.addr)
		}
	}
	switch {
	case len(down) > 0:
		e.note(Failure, remedy, "the Cluster is down, as seen by %s", strings.Join(down, " "))
	case len(partial) > 0:
		e.note(Failure, remedy, "some slots have no master that answers, as seen by %s", strings.Join(partial, " "))
	case unread != nil:
		e.note(Unknown, Remedy(unread), "unknown whether all slots have a master: %v", unread)
	default:
		e.note(OK, "", "all slots have a master")
	}
}

var clusterSlots = regexp.MustCompile(`cluster_slots_ok:(\d+)`)

// runIDs returns the run ids of the servers that several connections reach, and the number of connections.
func (e *examination) runIDs(ctx context.Context, client interface{ Conn() *redis.Conn }) (ids map[string]bool, connections int) {
	ids = make(map[string]bool)
	var open [8]*redis.Conn // all open together, so that the pool cannot return one twice
	defer func() {
		for _, conn := range open[:connections] {
			_ = conn.Close()
		}
	}()
	for i := range open {
		open[i] = client.Conn()
		id, err := e.runID(ctx, open[i])
		if err != nil { // the pool may have fewer connections
			_ = open[i].Close()
			break
		}
		connections++
		if transport.IsID(id) {
			ids[id] = true
		}
	}
	return ids, connections
}

// runID returns the run id of the server; behind a proxy that shards, of the server that has a certain key.
func (e *examination) runID(ctx context.Context, conn *redis.Conn) (string, error) {
	if e.topology.Sharded {
		return conn.Eval(ctx, transport.RunID, []string{e.options.Prefix + ":probe"}).Text()
	}
	info, err := transport.ReadInfo(ctx, conn, "server")
	return info["run_id"], err
}

// checkRoles checks that the servers are masters.
func (e *examination) checkRoles(context.Context) {
	e.each(e.masters(), func(s *server) {
		switch {
		case s.info["role"] == "":
			e.noteOf(s, Unknown, "", "INFO lacks the role")
		case transport.HasOtherMasters(s.info):
			e.noteOf(s, Failure, "use servers with one master", "%s: other servers accept writes as well, so two callers can hold one lock", s.info["role"])
		case s.info["role"] == "slave":
			e.noteOf(s, Failure, "use the address of the master, or a client for Sentinel", "a replica of %s:%s", s.info["master_host"], s.info["master_port"])
		default:
			e.noteOf(s, OK, "", "a master")
		}
	})
}
