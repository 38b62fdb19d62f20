package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// inboxes are all inboxes of this process, and the connections by which it listens to them.
type inboxes struct {
	e       *Engine
	cluster transport.Cluster // whose nodes have inboxes of their own; nil: there is one inbox for all
	only    *inbox            // the one for all
	silent  silentInbox
	silence atomic.Int64 // how long a connection brings no message until it is tested (ns)
	count   atomic.Int64 // subscriptions so far
	anew    timers.Timer // for polls after new subscriptions

	wg          sync.WaitGroup
	mu          sync.Mutex
	stopped     bool
	warned      bool
	subscribers map[*redis.Client]*subscriber // by node; that of the one for all has none
}

const (
	// inboxRetry is the pause before a subscription that failed is tried again.
	inboxRetry = 50 * time.Millisecond
	// inboxIdle is after how long without use an inbox of a Cluster is given up: there may be thousands of them.
	inboxIdle = time.Minute
)

func (all *inboxes) init(e *Engine) {
	all.e, all.cluster = e, transport.ClusterOf(e.rdb)
	all.subscribers = make(map[*redis.Client]*subscriber)
	all.anew.Of(all)
	all.silence.Store(int64(inboxSilence))
	all.silent.init(e)
	if all.cluster == nil {
		all.only = newInbox(e.layout.Inbox(e.process, nil))
	}
}

// of returns the inbox for a lock.
func (all *inboxes) of(keys *script.KeySet) *inbox {
	if all.only != nil {
		return all.only
	}
	return newInbox(all.e.layout.Inbox(all.e.process, keys))
}

// use has the messages of b come in from now on.
func (all *inboxes) use(b *inbox) {
	b.used.Store(int64(clock.Now()))
	if b.started.Load() {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if !all.stopped && b.started.CompareAndSwap(false, true) {
		all.wg.Go(func() { all.place(b) })
	}
}

// place has b subscribed to at the node that has its slot. It tries until it has found that.
func (all *inboxes) place(b *inbox) {
	for {
		var node *redis.Client
		var err error
		if all.cluster != nil {
			node, err = all.cluster.MasterForKey(all.e.sender.Context(), b.name)
		}
		if err == nil {
			all.join(b, node)
			return
		}
		all.e.sender.Note(err)
		if !pause.For(all.e.sender.Context(), inboxRetry) {
			return
		}
	}
}

// join has b subscribed to at a node.
func (all *inboxes) join(b *inbox, node *redis.Client) {
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
	s.inboxes[b.name], b.subscriber = b, s
	ready := s.ready
	all.mu.Unlock()
	if ready {
		s.subscribe(b)
	}
}

// placeAgain has inboxes subscribed to after a pause. The goroutine that calls it is one of all.wg.
func (all *inboxes) placeAgain(list []*inbox) {
	if !pause.For(all.e.sender.Context(), inboxRetry) {
		return
	}
	for _, b := range list {
		all.place(b)
	}
}

// follow has the inboxes follow their slots to other nodes, in the background.
func (all *inboxes) follow() {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.stopped {
		return
	}
	for _, s := range all.subscribers {
		all.wg.Go(func() { s.follow(all.e.sender.Context()) })
	}
}

// confirmed notes that the messages of b come in.
func (all *inboxes) confirmed(b *inbox) {
	b.subscription.Store(all.count.Add(1))
	all.mu.Lock()
	missed := b.missed
	b.missed = false
	all.mu.Unlock()
	if missed {
		all.e.recovery.plan() // the server of the last one may be away
	}
	all.e.schedule.SetNow(&all.anew) // messages may have been missed
}

// Due polls, after new subscriptions, for the requests of which a message may have been missed.
func (all *inboxes) Due() {
	all.e.pollThose(func(r *request) bool { return r.asked != r.c.slot.inbox.subscription.Load() })
}

// subscribeAnew ends the subscription of b, and so begins another one.
func (all *inboxes) subscribeAnew(b *inbox) {
	all.mu.Lock()
	s := b.subscriber
	hangUp := s != nil && s.ready && !all.stopped
	all.mu.Unlock()
	if hangUp {
		s.hangUp()
	}
}

// stop ends all subscriptions.
func (all *inboxes) stop() {
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
