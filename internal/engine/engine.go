// Package engine implements locks on Redis. The files, in the order in which one lock travels through them:
//
//	engine.go   the parts of an engine; Acquire finds the cohort of the call; Shutdown and Close
//	entry.go    the state of one key, and the tables of ids and slots
//	cohort.go   the callers of this process that share one request and hold the lock one after the other (see localq)
//	request.go  a request is granted immediately, or queued and granted later
//	queued.go   a queued request asks the server by peeks and polls
//	message.go  messages to this process grant queued requests; any client may have sent them
//	outage.go   the server is unreachable, was replaced, or has lost its token counter; rounds send what is due
//	lease.go    what the server has granted to this process, how it is lost, and how long it may last
//	hold.go     one caller's turn with a lease, or its share in it; downgrades, ticks of jobs, node votes, records of work
//	sharing.go  one lease serves several callers: shared by readers or passed along a grant batch; permits, which are never shared
//	renewal.go  the watchdog renews leases, follows slots that move, and reports the number of waiters
//	release.go  a hold ends: the lease is passed on, handed over, released or cancelled
//	together.go one command takes or releases several locks
//	nested.go   a caller that holds other locks waits: deadlock detection
//	recovery.go an unreachable server answers again: recent ends are repeated
//
// Package script contains the scripts, package transport sends them, package inbox receives messages, and package timers is the
// schedule. The numbered rules are in docs/protocol.md.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A Config configures an Engine.
type Config struct {
	Prefix        string
	SlottedKeys   bool // lay out the keys for a proxy in front of several servers
	LocalPasses   int  // passes within this process while another process waits
	Replicas      transport.Replicas
	Quarantine    time.Duration // 0: none
	Margin        time.Duration // how much earlier a deadline is than the expiry on the server; negative: 1 % of the lease + 2 ms
	UnlockTimeout time.Duration // how long releases usually wait for their confirmation
	Logger        *slog.Logger
	Waits         *deadlock.Registry // the nested waits of the process
}

// DefaultConfig returns the defaults of a Client.
func DefaultConfig() Config {
	return Config{Prefix: "lockmw", LocalPasses: 32, Margin: -1, UnlockTimeout: 2 * time.Second, Logger: slog.Default(), Waits: deadlock.Shared}
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
	unwantedCancels cancelLimit
	selfWaits       *transport.Timeouts // end when a wait is to be checked for a hold of this process
	process         string              // host, process id and a random part
	ids             idTable
	lastID          atomic.Uint64
	idStem          script.IDStem

	seed     maphash.Seed
	shards   [64]shard
	schedule *timers.Schedule
	round    round
	rounds   *transport.Pipelines
	pacer    *transport.Pacer   // paces renewals
	polling  *transport.Pacer   // paces polls
	peeking  *transport.Trickle // paces peeks
	topology transport.Topology
	onlySlot *slot    // of all locks; nil if the servers have slots
	slots    sync.Map // otherwise: a *slot of each lock that was used, by the key of its fencing counter
	inboxes  *inbox.Inboxes
	inbox    *inbox.Inbox // for all locks; nil if each slot has one
	detector *deadlock.Detector
	recovery recovery
	watch    *transport.Watch
	probe    *transport.Probe

	closing   atomic.Bool // new calls are refused
	active    *localq.Holds
	closeOnce sync.Once
	voids     voids
	endings   transport.Endings
}

// A shard is a part of the entries. Its mutex guards them and their requests, leases and holds.
type shard struct {
	mu       sync.Mutex
	entries  map[string]*entry
	released released
}

// New returns an engine. It sends nothing, unless it has to ask what kind of server rdb talks to.
func New(rdb redis.UniversalClient, cfg Config) (*Engine, error) {
	topology, err := transport.TopologyOf(rdb, cfg.Prefix, cfg.SlottedKeys)
	if err == nil {
		err = cmp.Or(topology.Check(cfg.Quarantine, cfg.Replicas), cfg.Replicas.Check(rdb))
	}
	if err != nil {
		return nil, err
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	e := &Engine{
		cfg: cfg, rdb: rdb, topology: topology,
		layout:   script.NewLayout(cfg.Prefix, topology),
		sender:   transport.NewSender(rdb, topology, min(time.Second, cfg.UnlockTimeout/2), cfg.Replicas),
		process:  fmt.Sprintf("%s:%x", core.ProcessName(), random[:4]),
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
	e.rounds = transport.NewPipelines(e.sender, e.schedule)
	e.inboxes = inbox.NewInboxes(inbox.Config{Client: rdb, Sender: e.sender, Schedule: e.schedule, Reader: reader{e}, Logger: cfg.Logger, PerSlot: topology.HasSlots()})
	if !topology.HasSlots() {
		e.inbox = inbox.New(e.layout.Inbox(e.process, nil))
		e.onlySlot = &slot{inbox: e.inbox}
	}
	e.detector = deadlock.NewDetector(cfg.Waits, site{e})
	e.recovery.init(e)
	e.probe = transport.NewProbe(e.sender, e.schedule, cfg.Prefix, cfg.Logger)
	e.watch = transport.NewWatch(transport.WatchConfig{
		Sender: e.sender, Schedule: e.schedule, Topology: topology, Horizon: releaseLost,
		Keys: e.holdersEndedLately, Lasts: func() bool { return e.active.Len() > 0 }, Changed: e.onServerReplaced,
	})
	e.releaseTimeouts = transport.NewTimeouts(e.sender.Context(), cfg.UnlockTimeout, cfg.UnlockTimeout/8)
	e.selfWaits = transport.NewTimeouts(e.sender.Context(), core.SelfWaitAfter+core.SelfWaitAfter/4, core.SelfWaitAfter/4)
	e.register()
	return e, nil
}

// newID returns a new id.
func (e *Engine) newID() *script.ID { return e.idStem.New(e.lastID.Add(1)) }

// margin returns how much earlier a lease ends here than on the server (rule 17 of docs/protocol.md).
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
	// While the lock moves to another process, its holder is unknown here. The answer will name it.
	w.Notified = contended && (len(holders) > 0 || c.request.queued)
	notify := w.Notified
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

// await returns the hold of w, or the error that ended its wait.
func (c *cohort) await(w *localq.Waiter) (core.Hold, error) {
	if h, err := w.Poll(c); h != nil || err != nil {
		return h, err // most waits have already ended
	}
	var selfWait <-chan struct{}
	if w.Req.Wait > core.SelfWaitAfter {
		selfWait = c.e.selfWaits.Next(w.Began).Done()
	}
	var found <-chan *core.DeadlockError
	if n := c.beginNested(w); n != nil {
		defer n.end()
		found = n.Found
	}
	return w.Await(c, selfWait, found)
}

// Backend returns the Redis that has the locks.
func (e *Engine) Backend() core.Backend {
	holder := func(key string) string {
		keys := e.layout.KeySet(key)
		return keys.Holder()
	}
	return core.Backend{Redis: e.rdb, Holder: holder, Closed: e.sender.Context().Done()}
}

// Context ends when the engine is closed. A command whose context derives from it costs less.
func (e *Engine) Context() context.Context { return e.sender.Context() }

// WatchForRestart detects a restart of the server immediately, not only with the next command: the restart breaks the inbox's
// connection, and a new connection begins a recovery. It works while this process holds a lock or waits for one.
func (e *Engine) WatchForRestart() { e.inboxes.Use(e.inbox) }

// LeaseFor returns the lease that makes a hold last that long on this process' clock.
func (e *Engine) LeaseFor(hold time.Duration) time.Duration {
	if e.cfg.Margin < 0 {
		return hold + hold/99 + 3*time.Millisecond
	}
	return hold + min(e.cfg.Margin, hold/2)
}

// IsClosing reports whether the engine refuses new calls.
func (e *Engine) IsClosing() bool { return e.closing.Load() }

// Config returns the configuration of the engine.
func (e *Engine) Config() Config { return e.cfg }

// Process returns the name by which an operator recognises this process.
func (e *Engine) Process() string { return e.process }

// Topology returns the kind of servers that have the locks.
func (e *Engine) Topology() transport.Topology { return e.topology }

// Addr returns the address of the server, or "" if it is unknown.
func (e *Engine) Addr() string {
	if c, ok := e.rdb.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
}

// Shutdown refuses new calls, ends waits, and returns when all holds have ended or ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	e.endLeaders()
	return e.active.AwaitEnd(ctx)
}

// endLeaders asks leaders to end their holds, which would otherwise last forever.
func (e *Engine) endLeaders() {
	var leaders []*hold
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		for h := range l.holds.All() {
			if h.Req.Leads {
				leaders = append(leaders, h)
			}
		}
		l.c.shard.mu.Unlock()
	}
	for _, h := range leaders {
		h.Req.Events.ShuttingDown()
	}
}

// Close ends waits and holds, releases the locks, and returns when all goroutines have ended (rule 16 of docs/protocol.md). Its
// error gives the number of locks that are left. Further calls do nothing.
func (e *Engine) Close() (err error) {
	e.closeOnce.Do(func() { err = e.close() })
	return err
}

func (e *Engine) close() error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	leases, lost := e.detachLeases()
	notifyLost(lost) // the contexts end before the server grants the locks to others
	for _, l := range leases {
		l.cancelHeld()
	}
	left := e.endings.Await(e.sender)
	e.sender.Cancel()
	e.schedule.Stop()
	e.detector.Stop()
	e.inboxes.Stop()
	e.diagnoses.Stop()
	e.sender.Stop()
	return left.Report(e.cfg.Logger)
}

// detachLeases ends all leases in this process.
func (e *Engine) detachLeases() (leases []*lease, lost []*hold) {
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		if !l.over {
			leases = append(leases, l)
			lost = append(lost, l.detach(fmt.Errorf("%w with the lock held", core.ErrClosed))...)
		}
		l.c.shard.mu.Unlock()
	}
	return leases, lost
}

// The methods below are for a lock over several independent nodes (rule 24 of docs/protocol.md).

// SetMultiNode tells the engine that its server is one of several nodes that are asked together.
func (e *Engine) SetMultiNode() {
	e.sender.SetMultiNode()
	e.inboxes.SetPingAfter(nodePingAfter)
}

// nodePingAfter replaces inbox.PingAfter at such a node: its holds depend on noticing a restart soon.
const nodePingAfter = time.Second

// AwaitEndings returns when the server has confirmed all releases and cancellations, or has confirmed none for a while.
func (e *Engine) AwaitEndings() transport.Unreleased { return e.endings.Await(e.sender) }

// TrustedServer returns the name of the server that is trusted to have all locks in the slot of a key. It returns "" if no server
// is trusted, or if there is no quarantine.
func (e *Engine) TrustedServer(key string) string {
	if e.quarantine == nil {
		return ""
	}
	keys := e.layout.KeySet(key)
	return e.quarantine.TrustedServer(keys.Holder())
}

// Counter returns the last token that the server has given for any key. It fails as an acquire of key would, but ignores holders.
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

// Raise makes the next token of key greater than token. It fails with core.ErrUnavailable if token is too far ahead of the
// server's clock.
func (e *Engine) Raise(ctx context.Context, key string, token int64) error {
	keys := e.layout.KeySet(key)
	return e.raise(ctx, script.Raise{Keys: &keys, Token: token, Always: true})
}
