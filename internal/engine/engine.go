// Package engine implements locks on Redis. In the order in which one lock travels through them:
//
//	engine.go   Acquire finds the cohort of the call, and what an engine is made of
//	entry.go    the state of one key, and how ids and slots are found
//	cohort.go   callers of this process share one request, and one of them after the other has the lock (see localq)
//	request.go  a request is granted immediately, or queued and granted later
//	queued.go   what becomes of a queued request: it is asked for, by peeks and polls
//	message.go  messages to this process, which anybody may have sent, grant what is queued
//	outage.go   the server is away, or another one has its place; what is due goes out in rounds
//	lease.go    what the server granted to this process, how it is lost, and how long it may last
//	hold.go     one caller's turn with a lease, or its share in it; downgrades, ticks of jobs, votes, and tokens that are too old
//	pass.go     a lease serves several: readers share it, a run passes it on; permits, which nobody shares
//	renewal.go  the watchdog renews leases, follows slots that move, and tells how many wait
//	release.go  a hold ends: the lease is passed on, handed over, released, or cancelled
//	together.go several locks are taken or released in one run
//	nested.go   a caller waits and has other locks: a deadlock is looked for
//	recovery.go a server that was away answers again: what has ended lately is ended again
//	close.go    Shutdown and Close
//
// Scripts are in package script, and how they are sent in package transport. Messages come in by package inbox, and package timers
// says when something is due. The numbered rules of docs/protocol.md say what has to hold.
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
	releaseTimeouts *transport.Timeouts               // for the confirmation of releases
	secretOf        func(holder string) script.Secret // of the tickets for a lock
	diagnoses       transport.Diagnoses
	outages         loglimit.Limit
	unreleased      loglimit.Limit
	forged          loglimit.Limit
	unwanted        unwanted
	selfWaits       *transport.Timeouts // for waits that are to be looked at
	process         string              // host, process id and a random part
	ids             idTable
	lastID          atomic.Uint64
	idStem          script.IDStem

	seed     maphash.Seed
	shards   [64]shard
	schedule *timers.Schedule
	round    round
	pacer    *transport.Pacer   // of renewals
	polling  *transport.Pacer   // of polls
	peeking  *transport.Trickle // of peeks
	slots    slots
	inboxes  *inbox.Inboxes
	inbox    *inbox.Inbox // for all locks; nil: each slot of a Cluster has one
	detector *deadlock.Detector
	recovery recovery
	identity identity
	probe    *transport.Probe

	closing   atomic.Bool // nothing new is accepted
	active    *localq.Holds
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
		active:   localq.NewHolds(),
	}
	params := script.DefaultParams(topology.Single)
	e.quarantine = script.NewQuarantine(rdb, e.layout, cfg.Quarantine)
	params.Quarantine = e.quarantine
	e.scripts = script.NewSet(params)
	e.pacer, e.polling, e.peeking = transport.NewPacer(e.sender), transport.NewPacer(e.sender), transport.NewTrickle(e.sender)
	e.schedule = timers.New(e.endRound)
	e.inboxes = inbox.NewInboxes(inbox.Config{Client: rdb, Sender: e.sender, Schedule: e.schedule, Reader: reader{e}, Logger: cfg.Logger})
	if e.inboxes.Cluster == nil {
		e.inbox = inbox.New(e.layout.Inbox(e.process, nil))
	}
	e.detector = deadlock.NewDetector(cfg.Waits, site{e})
	e.slots.init(e, topology.Cluster)
	e.recovery.init(e)
	e.probe = transport.NewProbe(e.sender, e.schedule, cfg.Prefix, cfg.Logger)
	e.identity.init(e, topology)
	e.releaseTimeouts = transport.NewTimeouts(e.sender.Context(), cfg.Unlock, cfg.Unlock/8)
	e.selfWaits = transport.NewTimeouts(e.sender.Context(), core.StallAfter+core.StallAfter/4, core.StallAfter/4)
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
		return h, err // most waits have ended already
	}
	var selfWait <-chan struct{}
	if w.Req.Wait > core.StallAfter {
		selfWait = c.e.selfWaits.Next(w.Began).Done()
	}
	var found <-chan *core.DeadlockError
	if n := c.beginNested(w); n != nil {
		defer n.end()
		found = n.Found
	}
	return w.Await(c, selfWait, found)
}

// Backend tells where the locks live.
func (e *Engine) Backend() core.Backend {
	holder := func(key string) string {
		keys := e.layout.KeySet(key)
		return keys.Holder()
	}
	return core.Backend{Redis: e.rdb, Holder: holder, Closed: e.sender.Context().Done()}
}

// Context ends when the engine is closed. What is sent with a context that derives from it costs less.
func (e *Engine) Context() context.Context { return e.sender.Context() }

// Watch has a restart of the server be noticed when it happens, not at the next command: the connection of the inbox breaks then,
// and a new one begins a recovery. It lasts while this process holds or waits.
func (e *Engine) Watch() { e.inboxes.Use(e.inbox) }

// LeaseFor returns the lease of a hold that is to last that long by the clock of this process.
func (e *Engine) LeaseFor(hold time.Duration) time.Duration {
	if e.cfg.Margin < 0 {
		return hold + hold/99 + 3*time.Millisecond
	}
	return hold + min(e.cfg.Margin, hold/2)
}

// IsClosing reports whether the engine accepts nothing new.
func (e *Engine) IsClosing() bool { return e.closing.Load() }

// Config returns what the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Process is how an operator recognises this process.
func (e *Engine) Process() string { return e.process }

// IsCluster reports whether the server is a Cluster, which moves keys from node to node.
func (e *Engine) IsCluster() bool { return e.slots.cluster }

// Addr returns the address of the server; "" if it is not known.
func (e *Engine) Addr() string {
	if c, ok := e.rdb.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
}

// What follows is for a lock that is one of several at independent nodes (rule 24 of docs/protocol.md).

// BeOneOfSeveral says that the server is one of several that are asked at the same time.
func (e *Engine) BeOneOfSeveral() {
	e.sender.BeOneOfSeveral()
	e.inboxes.TestAfter(votesSilence)
}

// votesSilence is inbox.Silence for a server that is one of several: holds depend on it to learn of a restart.
const votesSilence = time.Second

// Trusted returns which server the engine trusts to have all locks in the slot of a key; "" if none, or it has no
// quarantine.
func (e *Engine) Trusted(key string) string {
	if e.quarantine == nil {
		return ""
	}
	keys := e.layout.KeySet(key)
	return e.quarantine.Trusted(keys.Holder())
}

// Counter asks for the last token that the server has given to any key. It fails as a request for key would, but for those
// who have the lock.
func (e *Engine) Counter(ctx context.Context, key string) (last int64, err error) {
	keys := e.layout.KeySet(key)
	p := script.Poll{Keys: &keys}
	a, err := e.ask(ctx, p.Call)
	if err != nil {
		return 0, err
	}
	answer, err := script.PollAnswer(a, 0, e.layout.InboxPrefix())
	if answer.More {
		e.pollForRest(keys, false)
	}
	return answer.Stamp, transport.Failure(err)
}

// Raise has the next token of key be greater than token. It fails with core.ErrUnavailable if that is too far ahead of the
// server's clock.
func (e *Engine) Raise(ctx context.Context, key string, token int64) error {
	keys := e.layout.KeySet(key)
	return e.raise(ctx, script.Raise{Keys: &keys, Token: token, Always: true})
}

// ServerTime returns what the server's clock says.
func (e *Engine) ServerTime(ctx context.Context) (time.Time, error) {
	now, err := e.rdb.Time(ctx).Result()
	return now, transport.Failure(err)
}

// Note notes at the server, by the name that Trusted has returned, that its counter was raised to those of other nodes.
func (e *Engine) Note(ctx context.Context, server string) error {
	return transport.Failure(e.rdb.Set(ctx, e.note(server), 1, noteTime).Err())
}

// IsNoted reports whether that was noted.
func (e *Engine) IsNoted(ctx context.Context, server string) (bool, error) {
	n, err := e.rdb.Exists(ctx, e.note(server)).Result()
	return n == 1, transport.Failure(err)
}

// noteTime is for how long it is noted.
const noteTime = 30 * 24 * time.Hour

func (e *Engine) note(server string) string { return e.cfg.Prefix + ":raised:" + server }
