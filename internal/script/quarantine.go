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

// A Quarantine keeps servers that may have lost locks from granting any until all older leases have expired (rule 22 of
// docs/protocol.md). It is the transport.Guard of the scripts that grant locks. It is safe for concurrent use.
type Quarantine struct {
	length time.Duration
	rdb    redis.UniversalClient
	layout Layout
	known  *redis.Script

	servers sync.Map // a *server for each *redis.Client of a node of a Cluster; without a Cluster, the key is a nil *redis.Client
}

// NewQuarantine returns a Quarantine of that length, which trusts no server yet. If the length is 0, it returns nil: no
// quarantine.
func NewQuarantine(rdb redis.UniversalClient, layout Layout, length time.Duration) *Quarantine {
	if length == 0 {
		return nil
	}
	return &Quarantine{length: length, rdb: rdb, layout: layout, known: redis.NewScript(knownLua)}
}

// A server has keys of locks. It may be replaced by another process at the same address.
type server struct {
	id atomic.Value // a string: the trusted replication id, if there is one

	mu    sync.Mutex    // serialises examinations
	seen  string        // replication id that was seen last
	since time.Time     // when seen was first seen; by the monotonic clock alone, because the quarantine must not end early
	next  clock.Instant // no examination before that
}

// TrustedServer returns the replication id that the server of a key must have; "" if none is trusted, or there is no quarantine.
func (q *Quarantine) TrustedServer(key string) string {
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

// A quarantineError says that a server grants no locks yet.
type quarantineError struct{ left time.Duration }

func (e *quarantineError) Error() string {
	return fmt.Sprintf("the server may have lost locks and grants none for another %v", e.left.Round(time.Millisecond))
}

// examineTimeout bounds one examination.
const examineTimeout = 2 * time.Second

// Examine decides whether the server of a key may grant locks, after it has refused an execution that carried a replication id.
// It returns nil if the server may grant locks; the server is trusted from then on.
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
		return nil // another call has decided in the meantime
	}
	if left := clock.Until(s.next); left > 0 {
		return &quarantineError{left}
	}
	id, err := q.check(ctx, client, key)
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

// check returns the replication id of a server. The error says why the server may not grant locks; it is nil if it may.
func (q *Quarantine) check(ctx context.Context, client redis.UniversalClient, key string) (id string, err error) {
	info, err := transport.ReadInfo(ctx, client)
	if err != nil {
		return "", fmt.Errorf("cannot tell whether the server has lost locks: %w", err)
	}
	if id, err = transport.ReplicationID(info); err != nil {
		return "", err
	}
	if info["role"] != "master" {
		return "", errors.New("the server is a replica")
	}
	err = q.isKnown(ctx, client, key, id) // in any case, because this also notes this client's quarantine
	if _, ok := errors.AsType[*quarantineError](err); ok && q.isOld(ctx, client, info) {
		err = nil
	}
	return id, err
}

var errShortQuarantine = &transport.FinalError{Err: fmt.Errorf("%w: all clients of a server need the same quarantine", core.ErrInvalidOption)}

// isOld reports whether a server has kept its data for a quarantine: it has run for that long, and has not taken the place of
// another server. The trace of a replaced server is erased when the first replica connects, which creates a backlog, and when
// the backlog's TTL has passed after the last replica left.
func (q *Quarantine) isOld(ctx context.Context, client redis.UniversalClient, info map[string]string) bool {
	uptime, err := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if err != nil || time.Duration(uptime)*time.Second < q.length+time.Second {
		return false
	}
	if strings.Trim(info["master_replid2"], "0") != "" || info["repl_backlog_active"] != "0" {
		return false
	}
	config, err := client.ConfigGet(ctx, "repl-backlog-ttl").Result()
	ttl, convErr := strconv.ParseInt(config["repl-backlog-ttl"], 10, 64)
	return err == nil && convErr == nil && (ttl == 0 || time.Duration(ttl)*time.Second >= q.length)
}

// isKnown returns nil if a server has been known by its replication id for a quarantine.
func (q *Quarantine) isKnown(ctx context.Context, client redis.UniversalClient, key, id string) error {
	answer, err := q.known.Run(ctx, client, []string{q.noteKey(ctx, client, key, id)}, id, q.length.Milliseconds()).Int64Slice()
	switch {
	case err != nil:
		return fmt.Errorf("cannot tell since when the server has been known: %w", err)
	case len(answer) != 2:
		return errors.New("another server has just taken its place")
	}
	passed, longest := time.Duration(answer[0])*time.Millisecond, time.Duration(answer[1])*time.Millisecond
	switch {
	case longest > q.length:
		return fmt.Errorf("%w: another client has WithQuarantine(%v), this one %v", errShortQuarantine, longest, q.length)
	case passed < q.length:
		return &quarantineError{left: q.length - max(passed, 0)}
	}
	return nil
}

// noteKey returns the key of the note since when a server has been known. In a Cluster the key is in the first of some fixed
// slots that the node has, so that all clients find it, whichever lock they want.
func (q *Quarantine) noteKey(ctx context.Context, client redis.UniversalClient, key, id string) string {
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
