package inbox

import "github.com/redis/go-redis/v9"

// The functions below are for tests of packages that use Inboxes.

// Count returns the number of subscriptions so far.
func (all *Inboxes) Count() int64 { return all.count.Load() }

// Serving returns the number of connections that bring messages, and of their Inboxes.
func (all *Inboxes) Serving() (connections, inboxes int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.subscribers {
		inboxes += len(s.inboxes)
	}
	return len(all.subscribers), inboxes
}

// Node returns the node of a Cluster at which b is subscribed, or nil if it is not subscribed.
func (all *Inboxes) Node(b *Inbox) *redis.Client {
	if s := all.of(b); s != nil {
		return s.node
	}
	return nil
}

// Deafen stops the connection of b from bringing messages.
func (all *Inboxes) Deafen(b *Inbox) error {
	return all.of(b).pubsub.Unsubscribe(all.Sender.Context(), b.Name)
}

// Receive handles a message, or an error, as if the connection of b had brought it. It returns false if that would have ended the
// connection.
func (all *Inboxes) Receive(b *Inbox, message any) bool {
	s := all.of(b)
	if s == nil {
		s = newSubscriber(all, nil)
	}
	if err, ok := message.(error); ok {
		b.subscription.Store(0) // the error is the answer to a subscription
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
