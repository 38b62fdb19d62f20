package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// An identity notices that a server has lost its latest writes, though no command has failed: it was restarted while this process
// had nothing to send, or Sentinels have put another one in its place on purpose. go-redis replaces broken connections in silence,
// and leaves a subscription at a master that was deposed. Each start and each promotion makes a new replication id, so the process
// asks for that from time to time while it matters (rule 13 of docs/protocol.md). Without the right to INFO it does not.
type identity struct {
	e      *Engine
	pause  time.Duration // between two looks
	roams  bool          // the server may be replaced by another one, at another address
	needed atomic.Int64  // an instant: it matters until then
	armed  atomic.Bool   // a look is planned, or under way
	off    atomic.Bool   // the server does not say
	timer  timers.Timer

	mu    sync.Mutex
	known map[*redis.Client]string // replication ids; of nil, if there is no Cluster
}

const (
	// identityPause is how much time is between two looks, and roamingPause behind Sentinels, where grants may be lost, too.
	identityPause = time.Second
	roamingPause  = 250 * time.Millisecond
	// identityTimeout bounds one look.
	identityTimeout = time.Second
)

func (y *identity) init(e *Engine, t transport.Topology) {
	y.e = e
	y.timer.Of(y)
	y.known = make(map[*redis.Client]string)
	y.roams = !t.Single && !t.Cluster
	if y.pause = identityPause; y.roams {
		y.pause = roamingPause
	}
}

// ended notes that something of this process has ended at a server, which may lose that.
func (y *identity) ended(now clock.Instant) { y.need(now) }

// used notes that a grant or a ticket of this process is at a server. If another one takes its place the process has to hear
// of that: elsewhere, a connection breaks.
func (y *identity) used(now clock.Instant) {
	if y.roams {
		y.need(now)
	}
}

func (y *identity) need(now clock.Instant) {
	y.needed.Store(int64(now.Add(releaseLost)))
	if y.armed.Load() || y.off.Load() || !y.armed.CompareAndSwap(false, true) {
		return
	}
	y.mu.Lock()
	if len(y.known) > 0 {
		now = now.Add(y.pause)
	}
	y.mu.Unlock()
	y.e.schedule.Set(&y.timer, now, 0)
}

// Due looks, in the background.
func (y *identity) Due() { y.e.schedule.Go(y.look) }

// look asks all servers that matter, and plans the next look if one is needed.
func (y *identity) look() {
	for _, node := range y.nodes() {
		y.ask(node)
	}
	now := clock.Now()
	if y.roams && y.e.active.Load() > 0 {
		y.needed.Store(int64(now.Add(releaseLost)))
	}
	if now < clock.Instant(y.needed.Load()) && !y.off.Load() {
		y.e.schedule.Set(&y.timer, now.Add(y.pause), 0)
		return
	}
	y.armed.Store(false)
}

// nodes returns the nodes of a Cluster at which something has ended lately; one that is nil if there is no Cluster.
func (y *identity) nodes() (all []*redis.Client) {
	cluster := y.e.inboxes.Cluster
	if cluster == nil {
		return []*redis.Client{nil}
	}
	seen := make(map[*redis.Client]bool)
	for _, one := range y.e.endedLately() {
		keys := y.e.layout.KeySet(one.key)
		node, err := cluster.MasterForKey(y.e.sender.Context(), keys.Holder())
		if err == nil && !seen[node] {
			seen[node] = true
			all = append(all, node)
		}
	}
	return all
}

// ask asks one server.
func (y *identity) ask(node *redis.Client) {
	e := y.e
	client := e.rdb
	if node != nil {
		client = node
	}
	ctx, cancel := context.WithTimeout(e.sender.Context(), identityTimeout)
	defer cancel()
	info, err := transport.ReadInfo(ctx, client, "replication")
	id := info["master_replid"]
	if e.sender.Context().Err() != nil {
		return
	}
	if err != nil && transport.IsPassing(err) {
		e.sender.Note(err)
		return
	}
	if err != nil || id == "" {
		y.off.Store(true)
		return
	}
	y.mu.Lock()
	was := y.known[node]
	y.known[node] = id
	y.mu.Unlock()
	if was != "" && was != id {
		y.changed()
	}
}

// changed deals with a server that has lost its latest writes.
func (y *identity) changed() {
	e := y.e
	e.recovery.plan()
	switch {
	case y.roams:
		e.inboxes.SubscribeAnew(e.inbox)
	case e.inboxes.Cluster != nil:
		e.inboxes.Follow()
	}
}
