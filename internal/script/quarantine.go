package script

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

//go:embed lua/known.lua
var knownLua string

// A Quarantine keeps servers that may have lost locks from granting any until all older leases are over (rule 22 of
// docs/protocol.md). It is the transport.Guard of the scripts that grant locks. Safe for concurrent use.
type Quarantine struct {
	length time.Duration
	rdb    redis.UniversalClient
	layout Layout
	known  *redis.Script

	servers sync.Map // a *server by the *redis.Client of a node of a Cluster, or by nil
}

// NewQuarantine returns a Quarantine of that length, which trusts no server yet; nil, which is none, if it is 0.
func NewQuarantine(rdb redis.UniversalClient, layout Layout, length time.Duration) *Quarantine {
	if length == 0 {
		return nil
	}
	return &Quarantine{length: length, rdb: rdb, layout: layout, known: redis.NewScript(knownLua)}
}

// A server is one that has keys of locks; another one may take its place.
type server struct {
	id atomic.Value // a string: the replication id that is trusted, if one is

	mu    sync.Mutex    // of one examination at a time
	seen  string        // that was seen last
	since time.Time     // when it was seen first; the monotonic clock alone, as the quarantine must not end early
	next  clock.Instant // not examined again before that
}

// Trusted returns the replication id that the server of a key is to have; "" if none is trusted, or there is no quarantine.
func (q *Quarantine) Trusted(key string) string {
	if q == nil {
		return ""
	}
	s, _, err := q.serverOf(context.Background(), key)
	if err != nil {
		return ""
	}
	id, _ := s.id.Load().(string)
	return id
}

// serverOf returns the server that has a key, and its client.
func (q *Quarantine) serverOf(ctx context.Context, key string) (*server, redis.UniversalClient, error) {
	var node *redis.Client
	client := q.rdb
	if cluster := transport.ClusterOf(q.rdb); cluster != nil {
		var err error
		if node, err = cluster.MasterForKey(ctx, key); err != nil {
			return nil, nil, err
		}
		client = node
	}
	if s, ok := q.servers.Load(node); ok {
		return s.(*server), client, nil
	}
	s, _ := q.servers.LoadOrStore(node, new(server))
	return s.(*server), client, nil
}

// A quarantineError says that a server grants no lock yet.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string {
	return fmt.Sprintf("it may have lost locks, and grants none for another %v", e.left.Round(time.Millisecond))
}

// examineTimeout is how long an examination may take.
const examineTimeout = 2 * time.Second

// Examine finds out whether the server of a key may grant locks, which has refused a run that carried a replication id. It
// returns nil if it may, and is trusted from now on.
func (q *Quarantine) Examine(ctx context.Context, key string, carried any) error {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	s, client, err := q.serverOf(ctx, key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.id.Load(); id != nil && id != carried {
		return nil // another call has found out meanwhile
	}
	if left := clock.Until(s.next); left > 0 {
		return &quarantineError{left}
	}
	id, err := q.look(ctx, client, key)
	if id != "" && id != s.seen {
		s.seen, s.since = id, time.Now()
	}
	if e, ok := errors.AsType[*quarantineError](err); ok {
		left := min(e.left, q.length-time.Since(s.since)) // the server's clock may have been set back
		if left > 0 {
			s.next = clock.Now().Add(left)
			return &quarantineError{left}
		}
		err = nil
	}
	if err == nil {
		s.id.Store(id)
	}
	return err
}

// look returns the replication id of a server that has all locks, or why it has not.
func (q *Quarantine) look(ctx context.Context, client redis.UniversalClient, key string) (id string, err error) {
	info := client.InfoMap(ctx)
	if err := info.Err(); err != nil {
		return "", fmt.Errorf("whether it may have lost locks is not known: %w", err)
	}
	id = info.Item("Replication", "master_replid")
	switch {
	case len(id) != replicationIDLen:
		return "", errNoReplicationID
	case info.Item("Replication", "role") != "master":
		return "", errors.New("it is a replica")
	}
	err = q.isKnown(ctx, client, key, id) // in any case: that notes this client's quarantine
	if _, ok := errors.AsType[*quarantineError](err); ok && q.isOld(ctx, client, info) {
		err = nil
	}
	return id, err
}

const replicationIDLen = 40

var errShortQuarantine = &transport.FinalError{Err: fmt.Errorf("%w: all clients of a server need the same quarantine", core.ErrInvalidOption)}

var errNoReplicationID = &transport.FinalError{Err: errors.New("whether it may have lost locks is not known: INFO does not tell its replication id")}

// isOld reports whether a server has kept its data for a quarantine: it has run for that long, and took nobody's place. The
// trace of that is gone when its first replica comes, which makes a backlog, or a backlog's time after its last one.
func (q *Quarantine) isOld(ctx context.Context, client redis.UniversalClient, info *redis.InfoCmd) bool {
	uptime, err := strconv.ParseInt(info.Item("Server", "uptime_in_seconds"), 10, 64)
	if err != nil || time.Duration(uptime)*time.Second < q.length+time.Second {
		return false
	}
	if strings.Trim(info.Item("Replication", "master_replid2"), "0") != "" || info.Item("Replication", "repl_backlog_active") != "0" {
		return false
	}
	config, err := client.ConfigGet(ctx, "repl-backlog-ttl").Result()
	ttl, convErr := strconv.ParseInt(config["repl-backlog-ttl"], 10, 64)
	return err == nil && convErr == nil && (ttl == 0 || time.Duration(ttl)*time.Second >= q.length)
}

// isKnown returns nil if a server has been known by its id for a quarantine.
func (q *Quarantine) isKnown(ctx context.Context, client redis.UniversalClient, key, id string) error {
	answer, err := q.known.Run(ctx, client, []string{q.note(ctx, client, key, id)}, id, q.length.Milliseconds()).Int64Slice()
	switch {
	case err != nil:
		return fmt.Errorf("since when it is there is not known: %w", err)
	case len(answer) != 2:
		return errors.New("another server has taken its place just now")
	}
	passed, longest := time.Duration(answer[0])*time.Millisecond, time.Duration(answer[1])*time.Millisecond
	switch {
	case longest > q.length:
		return fmt.Errorf("%w: another client has WithQuarantine(%v), and this one %v", errShortQuarantine, longest, q.length)
	case passed < q.length:
		return &quarantineError{left: q.length - max(passed, 0)}
	}
	return nil
}

// note returns where it is noted since when a server is known by its id. In a Cluster it is in the first slot of the node
// among some, so that all clients find it, whatever lock they want.
func (q *Quarantine) note(ctx context.Context, client redis.UniversalClient, key, id string) string {
	cluster := transport.ClusterOf(q.rdb)
	if cluster == nil {
		return q.layout.prefix + ":known:" + id
	}
	in := func(tag string) string { return q.layout.prefix + ":{" + tag + "}:known:" + id }
	const some = 256
	for i := range some {
		note := in(slotTag(i * slots / some))
		if node, err := cluster.MasterForKey(ctx, note); err == nil && node == client {
			return note
		}
	}
	holder, _ := q.layout.Key(key)
	return in(slotTag(slotOf(escape(holder))))
}
