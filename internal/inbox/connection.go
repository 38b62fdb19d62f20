package inbox

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/transport"
)

// A subscriber is one connection, with the subscriptions to inboxes at one node. It is not used again after an error: go-redis
// would connect to the same node, and subscribe to all channels by one command, which no node of a Cluster accepts.
type subscriber struct {
	all     *Inboxes
	node    *redis.Client // of a Cluster; otherwise nil
	pubsub  *redis.PubSub
	checked clock.Instant // when it last checked its inboxes

	// The mutex of Inboxes guards the fields below.
	inboxes map[string]*Inbox // by name
	plain   bool              // the node has no sharded channels
	ready   bool              // it is connected; before that, closing pubsub would wait for the connection
}

const (
	// PingAfter is how long a connection brings no message before a PING tests it. For one of several nodes it is
	// engine.nodePingAfter.
	PingAfter = 5 * time.Second
	// checkInterval separates two checks of a node's inboxes. Messages and silences trigger the checks.
	checkInterval = time.Second
)

func newSubscriber(all *Inboxes, node *redis.Client) *subscriber {
	s := &subscriber{all: all, node: node, inboxes: make(map[string]*Inbox), plain: node == nil, checked: clock.Now()}
	if ctx := all.Sender.Context(); node != nil {
		s.pubsub = node.Subscribe(ctx)
	} else {
		s.pubsub = all.Client.Subscribe(ctx)
	}
	return s
}

// run listens until the connection fails, and then subscribes to its inboxes anew.
func (s *subscriber) run() {
	ctx := s.all.Sender.Context()
	err := s.connect(ctx)
	if err == nil {
		err = s.receive(ctx)
	}
	left, failures := s.leave()
	_ = s.pubsub.Close()
	if len(left) > 0 {
		s.all.Sender.Note(err)
		s.all.warn(left[0], err)
		s.all.subscribeAgain(left, failures)
	}
}

// leave removes the subscriber. It returns its inboxes, and how often in a row their connections have failed.
func (s *subscriber) leave() (left []*Inbox, failures int) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.all.subscribers[s.node] == s {
		delete(s.all.subscribers, s.node)
	}
	for _, b := range s.inboxes {
		s.drop(b)
		b.failures++
		failures = max(failures, b.failures)
		left = append(left, b)
	}
	return left, failures
}

// drop removes an inbox from the subscriber. The mutex of Inboxes is locked.
func (s *subscriber) drop(b *Inbox) {
	delete(s.inboxes, b.Name)
	b.subscriber = nil
	b.missed = b.missed || b.IsLive()
	b.subscription.Store(0)
}

// warn logs, once, that this process is not allowed to subscribe.
func (all *Inboxes) warn(b *Inbox, err error) {
	all.mu.Lock()
	warn := transport.IsReply(err) && transport.IsFinal(err) && !all.warned
	all.warned = all.warned || warn
	all.mu.Unlock()
	if warn {
		all.Logger.Warn("lockmw: not allowed to subscribe; waiting calls poll instead, which is slow",
			"channel", b.Name, "error", err)
	}
}

// connect subscribes to the inboxes that have gathered. After that the subscriber is ready for more.
func (s *subscriber) connect(ctx context.Context) error {
	sent := make(map[*Inbox]bool)
	for {
		s.all.mu.Lock()
		var next []*Inbox
		for _, b := range s.inboxes {
			if !sent[b] {
				next = append(next, b)
			}
		}
		s.ready = len(next) == 0
		stopped := s.all.stopped
		s.all.mu.Unlock()
		switch {
		case stopped:
			return redis.ErrClosed
		case s.ready:
			return nil
		}
		for _, b := range next {
			sent[b] = true
			if err := s.send(ctx, b); err != nil {
				return err
			}
		}
	}
}

// send sends the command that subscribes to b.
func (s *subscriber) send(ctx context.Context, b *Inbox) error {
	s.all.mu.Lock()
	plain := s.plain
	s.all.mu.Unlock()
	if plain {
		return s.pubsub.Subscribe(ctx, b.Name)
	}
	return s.pubsub.SSubscribe(ctx, b.Name)
}

// subscribe is send for one more inbox. If it fails, it closes the connection.
func (s *subscriber) subscribe(b *Inbox) {
	if err := s.send(s.all.Sender.Context(), b); err != nil {
		s.hangUp()
	}
}

// hangUp closes the connection of a subscriber that is ready, and ends a pending Receive.
func (s *subscriber) hangUp() { _ = s.pubsub.Close() }

// receive handles messages until the connection fails or does not answer the PING.
func (s *subscriber) receive(ctx context.Context) error {
	for tested := false; ; {
		message, err := s.pubsub.ReceiveTimeout(ctx, time.Duration(s.all.pingAfter.Load()))
		switch {
		case err == nil:
			tested = false
			s.handle(message)
		case transport.IsReply(err) && s.refused(err):
		case tested || !transport.IsTimeout(err):
			return err
		default:
			tested = true
			if err := s.pubsub.Ping(ctx); err != nil {
				return err
			}
		}
		s.checkInboxes(ctx)
	}
}

func (s *subscriber) handle(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		b := s.find(m.Channel)
		switch {
		case b == nil: // it was given up
		case m.Kind == "subscribe", m.Kind == "ssubscribe":
			s.all.confirmed(b)
		case m.Kind == "sunsubscribe": // by the node, which no longer has the slot
			s.moved([]*Inbox{b})
		}
	case *redis.Message:
		s.all.Reader.Message(m.Channel, m.Payload)
	}
}

func (s *subscriber) find(name string) *Inbox {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.inboxes[name]
}

// refused handles an error reply to a subscription. It returns false if the connection is of no use.
func (s *subscriber) refused(err error) bool {
	switch {
	case s.node != nil && transport.IsUnknownCommand(err):
		s.subscribePlain()
	case transport.IsMoving(err):
		s.moved(s.list(func(b *Inbox) bool { return !b.IsLive() })) // the answer does not say which
	default:
		return false
	}
	return true
}

// subscribePlain subscribes to plain channels at a node that has no sharded ones. Each inbox gets an answer of its own.
func (s *subscriber) subscribePlain() {
	s.all.mu.Lock()
	begun := s.plain
	s.plain = true
	s.all.mu.Unlock()
	if begun {
		return
	}
	for _, b := range s.list(func(*Inbox) bool { return true }) {
		s.subscribe(b)
	}
}

// list returns the inboxes that match.
func (s *subscriber) list(chosen func(b *Inbox) bool) (list []*Inbox) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	for _, b := range s.inboxes {
		if chosen(b) {
			list = append(list, b)
		}
	}
	return list
}

// moved subscribes to inboxes at the new nodes of their slots. The goroutine that calls it must be one of all.wg.
func (s *subscriber) moved(list []*Inbox) {
	s.all.mu.Lock()
	list = slices.DeleteFunc(list, func(b *Inbox) bool { return b.subscriber != s })
	for _, b := range list {
		s.drop(b)
	}
	s.all.mu.Unlock()
	if len(list) == 0 {
		return
	}
	s.all.Sender.ReloadSlots()
	s.all.wg.Go(func() { s.all.Reader.Moved(s.node, list) })
	s.all.wg.Go(func() { s.all.subscribeAgain(list, 1) })
}

// checkInboxes checks the inboxes of slots from time to time.
func (s *subscriber) checkInboxes(ctx context.Context) {
	if now := clock.Now(); s.all.PerSlot && now.Sub(s.checked) >= checkInterval {
		s.checked = now
		if s.node != nil {
			s.followSlots(ctx)
		}
		s.sweep(ctx, now)
	}
}

// followSlots finds inboxes whose slots have a new master. A deposed master does not announce that, and forwards the messages of
// its new master as long as it receives them.
func (s *subscriber) followSlots(ctx context.Context) {
	var elsewhere []*Inbox
	for _, b := range s.list(func(*Inbox) bool { return true }) {
		if node, err := s.all.Cluster.MasterForKey(ctx, b.Name); err == nil && node != s.node {
			elsewhere = append(elsewhere, b)
		}
	}
	s.moved(elsewhere)
}

// sweep gives up inboxes that have not been used for long, and closes the connection if none is left.
func (s *subscriber) sweep(ctx context.Context, now clock.Instant) {
	s.all.mu.Lock()
	var idle []string
	for _, b := range s.inboxes {
		b.started.Store(false) // before its use is read, which is recorded before it is requested
		if now.Sub(clock.Instant(b.used.Load())) < IdleTimeout || b.Listeners.Load() > 0 {
			b.started.Store(true)
			continue
		}
		s.drop(b)
		b.missed = false
		idle = append(idle, b.Name)
	}
	empty := len(s.inboxes) == 0
	if empty && s.all.subscribers[s.node] == s {
		delete(s.all.subscribers, s.node)
	}
	plain := s.plain
	s.all.mu.Unlock()
	if empty {
		s.hangUp()
		return
	}
	for _, name := range idle {
		if plain {
			_ = s.pubsub.Unsubscribe(ctx, name) // an error also ends the next Receive
		} else {
			_ = s.pubsub.SUnsubscribe(ctx, name)
		}
	}
}
