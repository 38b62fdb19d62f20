package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockmw/go/internal/transport"
)

// each calls note with each of the servers whose INFO is known, and merges equal findings about servers.
func (e *examination) each(servers []*server, note func(s *server)) {
	for _, s := range servers {
		if s.info != nil {
			note(s)
		}
	}
	e.noteSame(servers)
}

// config returns a setting of a server; "" if CONFIG GET is denied.
func (s *server) config(ctx context.Context, name string) string {
	return s.client.ConfigGet(ctx, name).Val()[name]
}

// nearlyFull is the part of maxmemory from which on the server counts as nearly full.
const nearlyFull = 0.9

func (e *examination) checkMemory(context.Context) {
	const remedy = "give it more memory: a full server refuses new locks, see " + pages + "#memory"
	e.each(e.servers, func(s *server) {
		used, most := s.number("used_memory"), s.number("maxmemory")
		switch share := float64(used) / float64(max(most, 1)); {
		case s.info["maxmemory"] == "":
			e.noteOf(s, Unknown, "", "INFO lacks maxmemory")
		case most == 0:
			e.noteOf(s, OK, "", "no limit (maxmemory 0)")
		case share >= 1:
			e.noteOf(s, Failure, remedy, "full: %s of %s", bytes(used), bytes(most))
		case share >= nearlyFull:
			e.noteOf(s, Warning, remedy, "nearly full: %s of %s", bytes(used), bytes(most))
		default:
			e.noteOf(s, OK, "", "%.0f %% of %s used", share*100, bytes(most))
		}
	})
}

func bytes(n int64) string {
	const step = 1024
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if n < 10*step {
			return fmt.Sprintf("%d %s", n, unit)
		}
		n /= step
	}
	return fmt.Sprintf("%d GiB", n)
}

func (e *examination) checkEviction(context.Context) {
	const remedy = "CONFIG SET maxmemory-policy noeviction, or move locks to a Redis without a cache"
	e.each(e.servers, func(s *server) {
		switch policy, limited := s.info["maxmemory_policy"], s.number("maxmemory") > 0; {
		case policy == "":
			e.noteOf(s, Unknown, remedy, "INFO lacks maxmemory-policy")
		case policy == "noeviction":
			e.noteOf(s, OK, "", "maxmemory-policy noeviction")
		case limited:
			e.noteOf(s, Failure, remedy, "maxmemory-policy %s: a full server evicts locks that are held, and idempotency records: a request whose record is lost runs again", policy)
		default:
			e.noteOf(s, Warning, remedy, "maxmemory-policy %s: if maxmemory is ever set (now 0), a full server will evict locks and idempotency records", policy)
		}
	})
}

func (e *examination) checkPersistence(ctx context.Context) {
	const (
		locks   = "WithQuarantine prevents two holders after a crash; otherwise only fencing tokens protect writes. "
		records = "A request whose idempotency record is lost runs again; to prevent that, "
		page    = ": see " + pages + "#persistence-restarts-fail-over"
	)
	e.each(e.servers, func(s *server) {
		aof := s.info["aof_enabled"] == "1"
		switch fsync := s.config(ctx, "appendfsync"); {
		case s.info["aof_enabled"] == "":
			e.noteOf(s, Unknown, "", "INFO lacks the state of persistence")
		case aof && s.info["aof_last_write_status"] == "err":
			e.noteOf(s, Failure, "check its log and its disk", "the last write to the append-only file failed")
		case aof && fsync == "always":
			e.noteOf(s, OK, "", "appendonly yes, appendfsync always: a crash loses no lock and no idempotency record")
		case aof && fsync == "":
			e.noteOf(s, Advice, locks+records+"CONFIG SET appendfsync always"+page,
				"appendonly yes, and CONFIG GET does not show appendfsync: unless it is always, a crash may lose the newest locks and idempotency records")
		case aof && fsync == "no":
			e.noteOf(s, Advice, locks+records+"CONFIG SET appendfsync always"+page,
				"appendonly yes, appendfsync no: a crash of the machine may lose the locks and idempotency records of half a minute")
		case aof:
			e.noteOf(s, Advice, locks+records+"CONFIG SET appendfsync always"+page,
				"appendonly yes: a crash may lose the locks and idempotency records of the last second")
		case s.info["rdb_last_bgsave_status"] == "err":
			e.noteOf(s, Warning, "check its log and its disk", "the last snapshot failed: the server may refuse writes")
		case fsync != "" && s.config(ctx, "save") == "": // if CONFIG GET is denied, both are ""
			e.noteOf(s, Advice, locks+records+"CONFIG SET appendonly yes"+page,
				"no append-only file and no snapshots: a restart loses all locks and idempotency records")
		default:
			e.noteOf(s, Advice, locks+records+"CONFIG SET appendonly yes"+page,
				"no append-only file: a crash loses all locks and idempotency records since the last snapshot, if there is one")
		}
	})
}

// checkQuarantine checks whether WithQuarantine can notice that a server has lost locks.
func (e *examination) checkQuarantine(context.Context) {
	if e.topology.Sharded {
		e.note(Advice, "do not use WithQuarantine here: New refuses it", "a proxy does not show which server has a key")
		return
	}
	e.each(e.masters(), func(s *server) {
		if _, err := transport.ReplicationID(s.info); err != nil {
			e.noteOf(s, Advice, "do not use WithQuarantine here: it refuses every lock", "%v", err)
			return
		}
		e.noteOf(s, OK, "", "WithQuarantine can notice that the server has lost locks")
	})
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
