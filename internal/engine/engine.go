// Package engine implements locks on Redis. The way of one lock through the files:
//
//	engine.go    Acquire finds the cohort of the key
//	cohort.go    callers of this process queue there; the first sends a request
//	crowd.go     what the cohorts of one key know of one another
//	sharing.go   readers of one process share a lease
//	request.go   a request runs acquire.lua; it is granted at once, or queued and granted later
//	lease.go     what was granted to this process: renewed, passed on, released, or lost
//	grant.go     one caller's turn with it, or its share in it
//	downgrade.go makes one that writes one that reads
//	schedule.go  one loop for all renewals, polls and deadlines
//	poll.go      asks what became of requests that are queued
//	inbox.go     one subscription by which grants arrive
//	cancel.go    undoes what nobody wants any more
//	caller.go    how scripts are run: lane.go in the caller's goroutine, batch.go many at a time
//
// The scripts, one per operation, stand beside them; hold.lua, readers.lua and settle.lua are shared parts.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A Config is what New needs to know.
type Config struct {
	Prefix      string
	LocalPasses int           // within a process while another one waits
	Margin      time.Duration // by which deadlines are early; negative: 1 % of the lease + 2 ms
	Unlock      time.Duration // how long a release may take
	Logger      *slog.Logger
}

// DefaultConfig returns the defaults of a Client.
func DefaultConfig() Config {
	return Config{Prefix: "lockmw", LocalPasses: 32, Margin: -1, Unlock: 2 * time.Second, Logger: slog.Default()}
}

// An Engine implements core.Locks on Redis.
type Engine struct {
	cfg     Config
	rdb     redis.UniversalClient
	layout  script.Layout
	scripts *script.Set
	sender  *script.Sender
	unlocks *script.Timeouts // how long a release waits to be confirmed
	process string           // host, process id and a random part
	epoch   time.Time
	ids     idTable
	lastID  atomic.Uint64
	loners  atomic.Uint64 // cohorts of one
	idStem  script.IDStem

	seed     maphash.Seed
	shards   [64]shard
	schedule schedule
	inbox    inbox
	probed   sync.Once

	closing   atomic.Bool  // nothing new is accepted
	draining  atomic.Bool  // and nothing new is on its way
	active    atomic.Int64 // grants that are not over
	drained   chan struct{}
	drainOnce sync.Once
	closeOnce sync.Once
}

// A shard is a part of the cohorts; its mutex guards all their state and that of their leases.
type shard struct {
	mu      sync.Mutex
	cohorts map[cohortID]*cohort
	crowds  map[string]*crowd
}

// New returns an engine that has sent nothing yet.
func New(rdb redis.UniversalClient, cfg Config) (*Engine, error) {
	topology, err := script.TopologyOf(rdb)
	if err != nil {
		return nil, err
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	e := &Engine{
		cfg: cfg, rdb: rdb,
		layout:  script.NewLayout(cfg.Prefix, topology.Cluster),
		scripts: script.NewSet(script.DefaultParams(topology.Single)),
		sender:  script.NewSender(rdb, topology, min(time.Second, cfg.Unlock/2)),
		process: processName(random),
		idStem:  script.IDStem(base64.RawURLEncoding.EncodeToString(random) + "."),
		epoch:   time.Now(),
		seed:    maphash.MakeSeed(),
		drained: make(chan struct{}),
	}
	e.inbox.channel = e.layout.InboxPrefix() + e.process
	e.inbox.address = e.inbox.channel
	e.unlocks = script.NewTimeouts(e.sender.Context(), cfg.Unlock, cfg.Unlock/8)
	e.schedule.init(e)
	return e, nil
}

// processName is how an operator recognises this process.
func processName(random []byte) string {
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' {
			return '_'
		}
		return r
	}, cmp.Or(host, "unknown"))
	return fmt.Sprintf("%s:%d:%x", host, os.Getpid(), random[:4])
}

// newID returns an id that was never used before.
func (e *Engine) newID() *script.ID { return e.idStem.New(e.lastID.Add(1)) }

// An instant is a time by this process' monotonic clock.
type instant = time.Duration

func (e *Engine) now() instant                { return time.Since(e.epoch) }
func (e *Engine) instant(t time.Time) instant { return t.Sub(e.epoch) }

// margin is how much earlier than the server a lease is considered over here.
func (e *Engine) margin(lease time.Duration) time.Duration {
	if e.cfg.Margin < 0 {
		return lease/100 + 2*time.Millisecond
	}
	return min(e.cfg.Margin, lease/3)
}

// Acquire implements core.Locks.
func (e *Engine) Acquire(ctx context.Context, r *core.Request) (core.Grant, error) {
	c := e.lockCohort(e.cohortOf(r))
	if g := c.share(r); g != nil {
		c.unlock()
		return g, nil
	}
	w := newWaiter(ctx, r)
	w.begun = e.now()
	if err := c.join(w); err != nil {
		c.unlock()
		return nil, err
	}
	holders, contended := c.inTheWay()
	// While the lock goes from this process to another nobody knows who has it: the answer will tell.
	w.told = contended && (len(holders) > 0 || c.request.queued)
	tell := w.told
	c.unlock()
	if tell {
		r.Events.Contended(core.Wait{Holders: holders})
	}
	if w.send != nil {
		e.sender.Inline(w.send, w.patient())
	}
	g, err := w.await(c)
	if err != nil {
		return nil, err // a typed nil would be a Grant
	}
	return g, nil
}

// lockCohort returns a cohort, which it makes if there is none, with its shard locked.
func (e *Engine) lockCohort(id cohortID) *cohort {
	sh := &e.shards[maphash.String(e.seed, id.key)%uint64(len(e.shards))]
	sh.mu.Lock()
	c := sh.cohorts[id]
	if c == nil {
		c = &cohort{e: e, shard: sh, id: id, name: e.layout.KeySet(id.key)}
		if sh.cohorts == nil {
			sh.cohorts = make(map[cohortID]*cohort)
		}
		sh.cohorts[id] = c
		c.joinCrowd()
	}
	return c
}

// Shutdown refuses new requests, ends waits, and returns when no grant is left or ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	e.draining.Store(true) // from here on the number of grants only falls
	e.drain()
	select {
	case <-e.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inactive notes that a grant is over.
func (e *Engine) inactive() {
	if e.active.Add(-1) == 0 {
		e.drain()
	}
}

// drain closes e.drained if the last grant is over and no more are to come.
func (e *Engine) drain() {
	if e.draining.Load() && e.active.Load() == 0 {
		e.drainOnce.Do(func() { close(e.drained) })
	}
}

// Close ends waits and grants, releases the locks, and returns when no goroutine is left.
func (e *Engine) Close() error {
	e.closeOnce.Do(e.close)
	return nil
}

// closePatience is how long Close waits for the server to confirm the releases, and what is taken back.
const closePatience = 2 * time.Second

// settled returns when nothing is on its way to the server and nothing waits to be taken back, or after
// a while.
func (e *Engine) settled(patience time.Duration) {
	for until := e.now() + patience; ; time.Sleep(minCancelDelay) {
		before := e.schedule.isUndoing() // what is on its way then may fail, and wait again
		e.sender.WaitIdle(until - e.now())
		if !before && !e.schedule.isUndoing() || e.now() >= until {
			return
		}
	}
}

func (e *Engine) close() {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	var leases []*lease
	var lost []*grant
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		if !l.over {
			leases = append(leases, l)
			lost = append(lost, l.drop(fmt.Errorf("%w with the lock held", core.ErrClosed))...)
		}
		l.c.shard.mu.Unlock()
	}
	tellLost(lost) // their contexts end before the server gives the locks to others
	for _, l := range leases {
		l.forget()
	}
	e.settled(closePatience)
	e.sender.Cancel()
	e.schedule.stop()
	e.inbox.stop()
	e.sender.Stop()
}

func (e *Engine) eachCohort(f func(*cohort)) {
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		for _, c := range sh.cohorts {
			f(c)
		}
		sh.mu.Unlock()
	}
}
