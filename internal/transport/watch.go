package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// A Watch detects that a server may have lost its latest writes although no command has failed: it was restarted while this process
// had nothing to send, or Sentinels have replaced it on purpose. go-redis replaces broken connections silently, and leaves a
// subscription at a deposed master. On Redis and Valkey, each start and each promotion changes the replication id, so the Watch
// reads the id regularly while it matters (rule 13 of docs/protocol.md). Without the right to run INFO it does not. Safe for
// concurrent use.
type Watch struct {
	cfg    WatchConfig
	pause  time.Duration // between two reads
	needed atomic.Int64  // the instant until which reads are needed
	armed  atomic.Bool   // a read is scheduled or in flight
	off    atomic.Bool   // the server does not report its id
	timer  timers.Timer

	mu    sync.Mutex
	known map[*redis.Client]string // replication ids by node; the key is nil without a Cluster
}

// A WatchConfig configures a Watch.
type WatchConfig struct {
	Sender   *Sender
	Schedule *timers.Schedule
	Topology Topology
	// Horizon is how long a server may lose a write without an error.
	Horizon time.Duration
	// Keys returns Redis keys at the nodes of a Cluster that matter.
	Keys func() []string
	// Lasts reports whether the process has locks that another server may lose.
	Lasts func() bool
	// Changed handles a server that may have lost its latest writes.
	Changed func()
}

const (
	// WatchPause separates two reads of the id; replaceablePause does behind Sentinels, where grants may also be lost.
	WatchPause       = time.Second
	replaceablePause = 250 * time.Millisecond
	// watchTimeout bounds one read.
	watchTimeout = time.Second
)

// NewWatch returns a Watch, which reads nothing until it is needed.
func NewWatch(cfg WatchConfig) *Watch {
	w := &Watch{cfg: cfg, pause: WatchPause, known: make(map[*redis.Client]string)}
	if cfg.Topology.IsReplaceable() {
		w.pause = replaceablePause
	}
	w.off.Store(cfg.Topology.Sharded) // a proxy may answer with the id of any server
	w.timer.SetOwner(w)
	return w
}

// Wrote records that a server has a write of this process, which it may lose.
func (w *Watch) Wrote(now clock.Instant) {
	w.needed.Store(int64(now.Add(w.cfg.Horizon)))
	if w.armed.Load() || w.off.Load() || !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	if len(w.known) > 0 {
		now = now.Add(w.pause)
	}
	w.mu.Unlock()
	w.cfg.Schedule.Set(&w.timer, now, 0)
}

// WroteGrant is Wrote for a grant or a ticket, whose loss a broken connection shows unless another server takes the server's place.
func (w *Watch) WroteGrant(now clock.Instant) {
	if w.cfg.Topology.IsReplaceable() {
		w.Wrote(now)
	}
}

// IsIdle reports whether it does not matter at present which servers there are.
func (w *Watch) IsIdle(now clock.Instant) bool { return now >= clock.Instant(w.needed.Load()) }

// Due reads the ids in the background.
func (w *Watch) Due() { w.cfg.Schedule.Go(w.look) }

// look reads the ids of all servers that matter, and schedules the next read if one is needed.
func (w *Watch) look() {
	for _, node := range w.nodes() {
		w.ask(node)
	}
	now := clock.Now()
	if w.cfg.Topology.IsReplaceable() && w.cfg.Lasts() {
		w.needed.Store(int64(now.Add(w.cfg.Horizon)))
	}
	if !w.IsIdle(now) && !w.off.Load() {
		w.cfg.Schedule.Set(&w.timer, now.Add(w.pause), 0)
		return
	}
	w.armed.Store(false)
}

// nodes returns the nodes of a Cluster that matter, or a single nil without a Cluster.
func (w *Watch) nodes() (all []*redis.Client) {
	s := w.cfg.Sender
	if s.cluster == nil {
		return []*redis.Client{nil}
	}
	seen := map[*redis.Client]bool{nil: true} // if the client cannot find a node
	for _, key := range w.cfg.Keys() {
		if node := s.NodeFor(s.ctx, key); !seen[node] {
			seen[node] = true
			all = append(all, node)
		}
	}
	return all
}

// ask reads the id of one server.
func (w *Watch) ask(node *redis.Client) {
	s := w.cfg.Sender
	client := s.rdb
	if node != nil {
		client = node
	}
	ctx, cancel := context.WithTimeout(s.ctx, watchTimeout)
	defer cancel()
	info, err := ReadInfo(ctx, client, "replication")
	id := info["master_replid"]
	switch {
	case s.ctx.Err() != nil:
		return
	case err != nil && IsTemporary(err):
		s.Note(err)
		return
	case err != nil || id == "":
		w.off.Store(true)
		return
	}
	w.mu.Lock()
	was := w.known[node]
	w.known[node] = id
	w.mu.Unlock()
	if was != "" && was != id {
		w.cfg.Changed()
	}
}
