// Package inbox contains the channels on which a process receives its grants, and the connections that listen to them. A process
// has one channel for all locks. If the servers have slots it has one for each slot: in a Cluster its messages stay at the node
// that has the slot, and a proxy can send the subscription to the server that has it. Polls find what messages missed (rule 7 of
// docs/protocol.md).
//
//	inboxes.go          all channels, and the nodes at which they are subscribed
//	connection.go       one connection with subscriptions; notices that it is lost
//	retrypause.go       the pauses before a failed connection is replaced
//	beat.go             shows that the process is alive while it waits
//	deadsubscription.go detects that a subscription brings no messages any more
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

	// Listeners counts leases that end soon if the slot moves. The inbox is kept while there are any.
	Listeners atomic.Int64

	beats
	subscription atomic.Int64
	started      atomic.Bool  // subscribed, or about to be
	used         atomic.Int64 // a clock.Instant: the last use

	// The mutex of Inboxes guards the fields below.
	subscriber *subscriber // nil: none yet
	missed     bool        // messages were missed because a connection failed
	failures   int         // connections that failed since the last subscription
}

// New returns an Inbox with that name, which is not subscribed.
func New(name string) *Inbox { return &Inbox{Name: name, Address: name} }

// Subscription returns the number of the subscription, or 0 if there is none. While the number stays the same, no message was
// missed.
func (b *Inbox) Subscription() int64 { return b.subscription.Load() }

// IsLive reports whether the inbox is subscribed, as far as is known.
func (b *Inbox) IsLive() bool { return b.Subscription() != 0 }

// A Reader receives messages, and reports of messages that may have been missed. The goroutines of connections call its methods.
type Reader interface {
	// Message is called with each message.
	Message(channel, payload string)
	// Subscribed is called in the goroutine of the Schedule after new subscriptions: messages may have been missed.
	Subscribed()
	// Missed is called when messages were missed because a connection failed. The server may have been replaced.
	Missed()
	// Moved is called when the slots of some inboxes have left a node of a Cluster.
	Moved(from *redis.Client, some []*Inbox)
	// Beat is called in the goroutine of the Schedule when the process has to show that it is alive, for messages to b.
	Beat(b *Inbox)
	// IsIdle reports whether no message matters at present.
	IsIdle() bool
}

// A Config configures Inboxes.
type Config struct {
	Client   redis.UniversalClient
	Sender   *transport.Sender
	Schedule *timers.Schedule
	Reader   Reader
	Logger   *slog.Logger
	PerSlot  bool // each slot has an inbox
}

// Inboxes are all channels of a process. They are safe for concurrent use.
type Inboxes struct {
	Config
	// Cluster is the Cluster whose nodes have channels of their own; nil: all channels are at one address.
	Cluster transport.Cluster

	dead      deadSubscription
	pingAfter atomic.Int64 // the silence after which a connection is tested (ns)
	count     atomic.Int64 // subscriptions so far
	anew      timers.Timer // to report new subscriptions

	wg          sync.WaitGroup
	mu          sync.Mutex
	stopped     bool
	warned      bool
	subscribers map[*redis.Client]*subscriber // by node; the key is nil without a Cluster
	skipPause   chan struct{}                 // closed to end the pauses before reconnects; nil: there are none
}

// IdleTimeout is how long the Inbox of a slot is kept without use. There may be thousands of them.
const IdleTimeout = time.Minute

// NewInboxes returns Inboxes without subscriptions.
func NewInboxes(cfg Config) *Inboxes {
	all := &Inboxes{Config: cfg, Cluster: transport.ClusterOf(cfg.Client), subscribers: make(map[*redis.Client]*subscriber)}
	all.anew.SetOwner(all)
	all.pingAfter.Store(int64(PingAfter))
	all.dead.init(all)
	return all
}

// SetPingAfter sets the silence after which a connection is tested.
func (all *Inboxes) SetPingAfter(silence time.Duration) { all.pingAfter.Store(int64(silence)) }

// Use subscribes to b, if it is not yet subscribed, and records the use.
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

// subscribe subscribes to b at the node that has its slot. It retries until it has found that node.
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

// join subscribes to b at a node.
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

// FollowSlots moves the subscriptions of inboxes to the new nodes of their slots, in the background.
func (all *Inboxes) FollowSlots() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.stopped {
		return
	}
	for _, s := range all.subscribers {
		all.wg.Go(func() { s.followSlots(all.Sender.Context()) })
	}
}

// confirmed records that the server has confirmed the subscription of b.
func (all *Inboxes) confirmed(b *Inbox) {
	b.subscription.Store(all.count.Add(1))
	all.mu.Lock()
	missed := b.missed
	b.missed, b.failures = false, 0
	all.mu.Unlock()
	if missed {
		all.Reader.Missed() // the server of the last subscription may be unreachable
	}
	all.Schedule.SetNow(&all.anew) // messages may have been missed
}

// Due reports new subscriptions.
func (all *Inboxes) Due() { all.Reader.Subscribed() }

// Resubscribe ends the subscription of b, and thereby begins a new one.
func (all *Inboxes) Resubscribe(b *Inbox) {
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
