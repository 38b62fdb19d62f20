// Package engine implements locks on Redis. One lock travels through the files in this order:
//
//	engine.go     Acquire finds the cohort
//	entry.go      the state of one key
//	cohort.go     callers of this process queue there, and the first one sends a request
//	sharing.go    readers of one process share a lease
//	permit.go     permits of semaphores
//	giveup.go     the end of a caller's patience
//	oldtoken.go   a grant has an older token than one before
//	silence.go    why a server does not answer
//	outage.go     a call waits until the server can answer
//	stall.go      a caller waits for another one of this process
//	nested.go     a caller waits and has other locks: a deadlock is looked for
//	request.go    a request is granted at once, or queued and granted later
//	quarantine.go how long a quarantine lets a key be kept taken
//	trip.go       several locks are taken at once
//	poll.go       asks the server about queued requests
//	slot.go       what locks in one slot of a Cluster have in common
//	inbox.go      a channel by which grants arrive; silentinbox.go finds out that none do
//	hint.go       what follows from messages that anybody may have sent
//	inboxes.go    all inboxes, and where they are subscribed to; subscriber.go is one connection for that
//	lease.go      what the server granted to this process
//	run.go        it is passed to the next in the queue
//	hold.go       one caller's turn with a lease, or its share in it
//	renewal.go    the watchdog renews leases
//	forgotten.go  a hold that nobody can release is not renewed
//	loss.go       a lease or a hold is lost: by the clock or a message; renewal.go and release.go notice it, too
//	tally.go      tells the server how many callers wait behind a lease
//	downgrade.go  a write hold becomes a read hold
//	release.go    a hold ends: the lease is passed on, handed over or released
//	releaseall.go several holds end at once
//	tick.go       a hold of a job's lock begins and marks a tick
//	vote.go       the lock is one of several, and most of them count
//	cancel.go     the server forgets ids that are not wanted any more
//	recovery.go   a server that was away answers again
//	released.go   what has ended lately, and is ended again then
//	identity.go   a server has lost its latest writes, though no command has failed
//	ownhold.go    the server names a hold of this process that has ended
//	moved.go      a slot goes to a master whose replicas have acknowledged nothing
//	schedule.go   one loop for all renewals, polls and deadlines
//	close.go      Shutdown and Close
//	ids.go        finds the request or the lease of an id
//	probe.go      looks what kind of server this is
//
// The scripts and how they are sent are in package script. The numbered rules of docs/protocol.md say what
// has to hold.
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

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A Config is what New needs to know.
type Config struct {
	Prefix      string
	LocalPasses int // within this process while another process waits
	Replicas    transport.Replicas
	Quarantine  time.Duration // 0: none
	Margin      time.Duration // by which deadlines are early; negative: 1 % of the lease + 2 ms
	Unlock      time.Duration // how long a release may take to be confirmed
	Logger      *slog.Logger
	Waits       *deadlock.Registry // of its process
}

// DefaultConfig returns the defaults of a Client.
func DefaultConfig() Config {
	return Config{Prefix: "lockmw", LocalPasses: 32, Margin: -1, Unlock: 2 * time.Second, Logger: slog.Default(), Waits: deadlock.Shared}
}

// An Engine implements core.Locks on Redis.
type Engine struct {
	cfg             Config
	rdb             redis.UniversalClient
	layout          script.Layout
	scripts         *script.Set
	quarantine      *script.Quarantine // nil: none
	sender          *transport.Sender
	releaseTimeouts *transport.Timeouts // for the confirmation of releases
	look            look
	secretOf        func(holder string) script.Secret // of the tickets for a lock
	nodeLooks       nodeLooks
	outages         loglimit.Limit
	unreleased      loglimit.Limit
	forged          loglimit.Limit
	unwanted        unwanted
	stalls          *transport.Timeouts // for waits that are to be looked at
	process         string              // host, process id and a random part
	ids             idTable
	lastID          atomic.Uint64
	idStem          script.IDStem

	seed     maphash.Seed
	shards   [64]shard
	schedule *timers.Schedule
	round    round
	slots    slots
	inboxes  *inbox.Inboxes
	inbox    *inbox.Inbox // for all locks; nil: each slot of a Cluster has one
	detector *deadlock.Detector
	recovery recovery
	identity identity
	probed   sync.Once

	closing   atomic.Bool  // nothing new is accepted
	draining  atomic.Bool  // and no request is on its way
	active    atomic.Int64 // holds that are not over
	drained   chan struct{}
	drainOnce sync.Once
	closeOnce sync.Once
	endings   endings
}

// A shard is a part of the entries. Its mutex guards their state and that of their requests, leases and
// holds.
type shard struct {
	mu       sync.Mutex
	entries  map[string]*entry
	released released
}

// New returns an engine that has sent nothing yet.
func New(rdb redis.UniversalClient, cfg Config) (*Engine, error) {
	topology, err := transport.TopologyOf(rdb, cfg.Prefix)
	if err == nil {
		err = cfg.Replicas.Check(rdb)
	}
	if err != nil {
		return nil, err
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	e := &Engine{
		cfg: cfg, rdb: rdb,
		layout:   script.NewLayout(cfg.Prefix, topology.Cluster),
		sender:   transport.NewSender(rdb, topology, min(time.Second, cfg.Unlock/2), cfg.Replicas),
		process:  processName(random),
		idStem:   script.IDStem(base64.RawURLEncoding.EncodeToString(random) + "."),
		secretOf: script.NewSecrets().Of,
		seed:     maphash.MakeSeed(),
		drained:  make(chan struct{}),
	}
	params := script.DefaultParams(topology.Single)
	e.quarantine = script.NewQuarantine(rdb, e.layout, cfg.Quarantine)
	params.Quarantine = e.quarantine
	e.scripts = script.NewSet(params)
	e.schedule = timers.New(e.endRound)
	e.inboxes = inbox.NewInboxes(inbox.Config{Client: rdb, Sender: e.sender, Schedule: e.schedule, Reader: reader{e}, Logger: cfg.Logger})
	if e.inboxes.Cluster == nil {
		e.inbox = inbox.New(e.layout.Inbox(e.process, nil))
	}
	e.detector = deadlock.NewDetector(cfg.Waits, site{e})
	e.slots.init(e, topology.Cluster)
	e.recovery.init(e)
	e.identity.init(e, topology)
	e.releaseTimeouts = transport.NewTimeouts(e.sender.Context(), cfg.Unlock, cfg.Unlock/8)
	e.stalls = transport.NewTimeouts(e.sender.Context(), core.StallAfter+core.StallAfter/4, core.StallAfter/4)
	e.beKnown()
	return e, nil
}

// processName is how an operator recognises this process.
func processName(random []byte) string {
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(":{}", r) {
			return '_'
		}
		return r
	}, cmp.Or(host, "unknown"))
	return fmt.Sprintf("%s:%d:%x", host, os.Getpid(), random[:4])
}

// newID returns an id that was never used before.
func (e *Engine) newID() *script.ID { return e.idStem.New(e.lastID.Add(1)) }

// A moment is now, by both clocks. They are read once: each call for a lock that this process holds needs both.
type moment struct {
	now  clock.Instant
	time time.Time
}

func readClock() (m moment) {
	m.time, m.now = clock.Both()
	return m
}

// margin is by how much a lease ends earlier here than at the server (rule 17 of docs/protocol.md).
func (e *Engine) margin(lease time.Duration) time.Duration { return e.cfg.margin(lease) }

func (c *Config) margin(lease time.Duration) time.Duration {
	if c.Margin < 0 {
		return lease/100 + 2*time.Millisecond
	}
	return min(c.Margin, lease/3)
}

// Acquire implements core.Locks.
func (e *Engine) Acquire(ctx context.Context, r *core.Request) (core.Hold, error) {
	if err := e.checkRequest(r); err != nil {
		return nil, &core.AcquireError{Err: err}
	}
	c := e.lockCohort(r)
	if h := c.joinLease(r); h != nil {
		c.unlock()
		return h, nil
	}
	at := readClock()
	w := localq.NewWaiter(ctx, r, at.now)
	send, err := c.enqueue(w, at)
	if err != nil {
		c.unlock()
		return nil, e.explain(r.Key, err)
	}
	holders, contended := c.knownHolders(at)
	// While the lock moves from this process to another its holder is unknown. The answer will say.
	w.Told = contended && (len(holders) > 0 || c.request.queued)
	notify := w.Told
	c.unlock()
	if notify {
		r.Events.Contended(core.Wait{Holders: holders})
	}
	if send != nil {
		e.sender.Inline(send, w.IsPatient())
	}
	h, err := c.await(w)
	if err != nil {
		return nil, e.explain(r.Key, err)
	}
	return h, nil
}

// await returns the hold of w, or why there is none.
func (c *cohort) await(w *localq.Waiter) (core.Hold, error) {
	if h, err := w.Poll(c); h != nil || err != nil {
		return h, err // most waits are over already
	}
	var stalled <-chan struct{}
	if w.Req.Wait > core.StallAfter {
		stalled = c.e.stalls.Next(w.Began).Done()
	}
	nested := c.beginNested(w)
	defer nested.end()
	return w.Await(c, stalled, nested.found())
}
