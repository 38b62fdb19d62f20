package doctor

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

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
