// Package inbox has the channels on which a process hears of its grants, and the connections by which it listens to them. A
// process has one channel for all locks; in a Cluster one for each slot, whose messages stay at the node that has the slot.
// Polls find what gets lost on the way (rule 7 of docs/protocol.md).
//
//	inboxes.go    all channels, and at which nodes they are subscribed to
//	subscriber.go one connection with subscriptions
//	reconnect.go  when a connection that has failed is tried again
//	beat.go       has the process show that it lives while it waits
//	silent.go     finds out that a subscription brings nothing any more
package inbox

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// An Inbox is one channel. Its subscription begins with the first use.
type Inbox struct {
	Name    string
	Address any // Name, as an argument of a command

	// Listeners are leases that end soon if its slot moves: it is not given up meanwhile.
	Listeners atomic.Int64

	beats
	subscription atomic.Int64
	started      atomic.Bool  // it is subscribed to, or is going to be
	used         atomic.Int64 // a clock.Instant: when somebody wanted its messages last

	// The mutex of Inboxes guards these.
	subscriber *subscriber // nil: none yet
	missed     bool        // messages, since a connection failed
	failures   int         // of connections, since the last subscription
}

// New returns the Inbox with that name, which is not subscribed to yet.
func New(name string) *Inbox { return &Inbox{Name: name, Address: name} }

// Subscription returns the number of the subscription; 0 while there is none. As long as it stays the same no message was
// missed.
func (b *Inbox) Subscription() int64 { return b.subscription.Load() }

// IsLive reports whether it is subscribed to, as far as is known.
func (b *Inbox) IsLive() bool { return b.Subscription() != 0 }

// A Reader is told what comes in, and what may have been missed. Its methods are called by the goroutines of connections.
type Reader interface {
	// Message is called with each message.
	Message(channel, payload string)
	// Subscribed is called in the goroutine of the Schedule after new subscriptions: messages may have been missed.
	Subscribed()
	// Missed is called when messages were missed, as a connection failed: the server may be another one by now.
	Missed()
	// Moved is called when the slots of some have left a node of a Cluster.
	Moved(from *redis.Client, some []*Inbox)
	// Beat is called in the goroutine of the Schedule when the process is to show that it lives, for messages to b.
	Beat(b *Inbox)
	// IsIdle reports whether no message can matter for now.
	IsIdle() bool
}

// A Config is what Inboxes need to know.
type Config struct {
	Client   redis.UniversalClient
	Sender   *transport.Sender
	Schedule *timers.Schedule
	Reader   Reader
	Logger   *slog.Logger
}

// Inboxes are all channels of a process. They are safe for concurrent use.
type Inboxes struct {
	Config
	// Cluster is that whose nodes have channels of their own; nil: there is one channel for all.
	Cluster transport.Cluster

	dead    deadSubscription
	silence atomic.Int64 // how long a connection brings no message until it is tested (ns)
	count   atomic.Int64 // subscriptions so far
	anew    timers.Timer // for what follows new subscriptions

	wg          sync.WaitGroup
	mu          sync.Mutex
	stopped     bool
	warned      bool
	subscribers map[*redis.Client]*subscriber // by node; that of the one for all has none
	hurry       chan struct{}                 // ends the pauses before connections are tried again; nil: there are none
}

const (
	// Idle is after how long without use an Inbox of a Cluster is given up: there may be thousands of them.
	Idle = time.Minute
)

// NewInboxes returns Inboxes that are subscribed to nothing.
func NewInboxes(cfg Config) *Inboxes {
	all := &Inboxes{Config: cfg, Cluster: transport.ClusterOf(cfg.Client), subscribers: make(map[*redis.Client]*subscriber)}
	all.anew.Of(all)
	all.silence.Store(int64(Silence))
	all.dead.init(all)
	return all
}

// TestAfter has a connection be tested that has brought nothing for that long.
func (all *Inboxes) TestAfter(silence time.Duration) { all.silence.Store(int64(silence)) }

// Go runs f in a goroutine that Stop waits for.
func (all *Inboxes) Go(f func()) { all.wg.Go(f) }

// Use has the messages of b come in from now on.
func (all *Inboxes) Use(b *Inbox) {
	b.used.Store(int64(clock.Now()))
	if b.started.Load() {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.stopped && b.started.CompareAndSwap(false, true) {
		all.wg.Go(func() { all.subscribe(b) })
	}
}

// subscribe has b subscribed to at the node that has its slot. It tries until it has found that.
func (all *Inboxes) subscribe(b *Inbox) {
	for failures := 1; ; failures++ {
		var node *redis.Client
		var err error
		if all.Cluster != nil {
			node, err = all.Cluster.MasterForKey(all.Sender.Context(), b.Name)
		}
		if err == nil {
			all.join(b, node)
			return
		}
		all.Sender.Note(err)
		if !all.awaitRetry(failures) {
			return
		}
	}
}

// join has b subscribed to at a node.
func (all *Inboxes) join(b *Inbox, node *redis.Client) {
	all.mu.Lock()
	if all.stopped {
		all.mu.Unlock()
		return
	}
	s := all.subscribers[node]
	if s == nil {
		s = newSubscriber(all, node)
		all.subscribers[node] = s
		all.wg.Go(s.run)
	}
	s.inboxes[b.Name], b.subscriber = b, s
	ready := s.ready
	all.mu.Unlock()
	if ready {
		s.subscribe(b)
	}
}

// Follow has the inboxes follow their slots to other nodes, in the background.
func (all *Inboxes) Follow() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.stopped {
		return
	}
	for _, s := range all.subscribers {
		all.wg.Go(func() { s.follow(all.Sender.Context()) })
	}
}

// confirmed notes that the messages of b come in.
func (all *Inboxes) confirmed(b *Inbox) {
	b.subscription.Store(all.count.Add(1))
	all.mu.Lock()
	missed := b.missed
	b.missed, b.failures = false, 0
	all.mu.Unlock()
	if missed {
		all.Reader.Missed() // the server of the last one may be away
	}
	all.Schedule.SetNow(&all.anew) // messages may have been missed
}

// Due tells of new subscriptions.
func (all *Inboxes) Due() { all.Reader.Subscribed() }

// SubscribeAnew ends the subscription of b, and so begins another one.
func (all *Inboxes) SubscribeAnew(b *Inbox) {
	all.mu.Lock()
	s := b.subscriber
	hangUp := s != nil && s.ready && !all.stopped
	all.mu.Unlock()
	if hangUp {
		s.hangUp()
	}
}

// Stop ends all subscriptions.
func (all *Inboxes) Stop() {
	all.mu.Lock()
	all.stopped = true
	var ready []*subscriber
	for _, s := range all.subscribers {
		if s.ready {
			ready = append(ready, s)
		}
	}
	all.mu.Unlock()
	for _, s := range ready {
		s.hangUp()
	}
	all.wg.Wait()
}
