package inbox

import "github.com/redis/go-redis/v9"

// What is here is for tests of those who use Inboxes.

// Count returns how many subscriptions there were so far.
func (all *Inboxes) Count() int64 { return all.count.Load() }

// Serving returns how many connections bring messages, and of how many Inboxes.
func (all *Inboxes) Serving() (connections, inboxes int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.subscribers {
		inboxes += len(s.inboxes)
	}
	return len(all.subscribers), inboxes
}

// Node returns the node of a Cluster at which b is subscribed to; nil if it is at none.
func (all *Inboxes) Node(b *Inbox) *redis.Client {
	if s := all.of(b); s != nil {
		return s.node
	}
	return nil
}

// Deafen has the connection of b bring nothing any more.
func (all *Inboxes) Deafen(b *Inbox) error {
	return all.of(b).pubsub.Unsubscribe(all.Sender.Context(), b.Name)
}

// Receive deals with a message, or the error of one, as if the connection of b had brought it. It returns false if that would
// have been its end.
func (all *Inboxes) Receive(b *Inbox, message any) bool {
	s := all.of(b)
	if s == nil {
		s = newSubscriber(all, nil)
	}
	if err, ok := message.(error); ok {
		b.subscription.Store(0) // it is the answer to a subscription
		return s.refused(err)
	}
	s.handle(message)
	return true
}

func (all *Inboxes) of(b *Inbox) *subscriber {
	all.mu.Lock()
	defer all.mu.Unlock()
	return b.subscriber
}
