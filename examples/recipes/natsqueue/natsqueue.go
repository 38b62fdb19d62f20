// Package natsqueue consumes a NATS JetStream consumer with several processes, one message at a time for each key.
package natsqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/lockmw"
)

// A Consumer is one process that receives messages of a pull consumer with explicit acknowledgement. All fields are required.
type Consumer struct {
	Conn *nats.Conn
	Pull jetstream.Consumer
	// AckWait is AckWait of Pull: after what time without a sign of life the server delivers a message again.
	AckWait time.Duration
	// Grace is how long handlers have to end when the consumer stops.
	Grace time.Duration
}

// Run handles messages until ctx ends. It then waits for the handlers that run, and returns the other messages to the server. NATS or
// Redis being unreachable does not end it. It returns the cause of ctx.
//
// A message that giveUp accepts is acknowledged like one that was handled.
func (c Consumer) Run(ctx context.Context, locks lockmw.Locker, key lockmw.KeyFunc[jetstream.Msg],
	handle consume.Handler[jetstream.Msg], giveUp consume.GiveUp[jetstream.Msg], opts ...consume.Option,
) error {
	r := &receiver{Consumer: c, until: make(map[uint64]time.Time), messages: make(map[uint64]jetstream.Msg)}
	owned := func(ctx context.Context, m jetstream.Msg) error {
		if !r.owns(m) { // another process may handle it, or has done so
			return nil
		}
		return handle(ctx, m)
	}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx by Grace
	messages := consume.New(locks, key, owned, giveUp, opts...).Open(func(m jetstream.Msg) { r.acknowledge(alive, m) })
	var loops sync.WaitGroup
	loops.Go(func() { r.refresh(alive) })
	loops.Go(func() { r.receive(ctx, messages) })

	<-ctx.Done()
	end, cancel := context.WithTimeout(alive, c.Grace)
	defer cancel()
	notDone := messages.Close(end)
	stop()
	loops.Wait() // a request that waits takes up to a second
	r.handBack(context.WithoutCancel(ctx), notDone)
	return context.Cause(ctx)
}

type receiver struct {
	Consumer
	mu       sync.Mutex
	messages map[uint64]jetstream.Msg // by sequence in the stream: received and not done
	until    map[uint64]time.Time     // until when the server delivers them to no other process
}

// receive submits messages until ctx ends.
func (r *receiver) receive(ctx context.Context, messages *consume.Partition[jetstream.Msg]) {
	for ctx.Err() == nil {
		list, err := r.fetch()
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "fetching messages", "error", err)
			wait(ctx, time.Second)
		}
		for i, m := range list {
			if messages.Submit(ctx, m) != nil {
				r.handBack(context.WithoutCancel(ctx), list[i:])
				return
			}
		}
	}
}

// fetch returns messages that are there, or waits a second for one. They are noted, so that they are refreshed while they wait.
func (r *receiver) fetch() (list []jetstream.Msg, err error) {
	asked := time.Now()
	batch, err := r.Pull.FetchNoWait(10)
	if list = r.begin(asked, batch, err); len(list) > 0 || err != nil {
		return list, err
	}
	asked = time.Now()
	batch, err = r.Pull.Fetch(1, jetstream.FetchMaxWait(time.Second))
	list = r.begin(asked, batch, err)
	if err == nil {
		err = batch.Error()
	}
	return list, err
}

// begin notes messages, and leaves out those that run already: a process that was paused receives its own again.
func (r *receiver) begin(asked time.Time, batch jetstream.MessageBatch, err error) (list []jetstream.Msg) {
	if err != nil {
		return nil
	}
	for m := range batch.Messages() {
		r.mu.Lock()
		if id := sequence(m); r.messages[id] == nil {
			r.messages[id], r.until[id] = m, asked.Add(r.AckWait)
			list = append(list, m)
		}
		r.mu.Unlock()
	}
	return list
}

func sequence(m jetstream.Msg) uint64 {
	if meta, err := m.Metadata(); err == nil {
		return meta.Sequence.Stream
	}
	return 0
}

// owns reports whether the server delivers a message to no other process now.
func (r *receiver) owns(m jetstream.Msg) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[sequence(m)])
}

// refresh tells the server that messages are in hand. A message whose time has passed is not refreshed: it may be in another's hand.
func (r *receiver) refresh(ctx context.Context) {
	for wait(ctx, r.AckWait/3) {
		r.mu.Lock()
		var list []jetstream.Msg
		now := time.Now()
		for id, m := range r.messages {
			if now.Before(r.until[id]) {
				list = append(list, m)
			}
		}
		r.mu.Unlock()
		for _, m := range list {
			_ = m.InProgress() // the flush fails if this does
		}
		flush, cancel := context.WithTimeout(ctx, r.AckWait/3)
		if err := r.Conn.FlushWithContext(flush); err == nil {
			r.refreshed(list, now)
		} else if ctx.Err() == nil {
			slog.WarnContext(ctx, "refreshing messages", "error", err)
		}
		cancel()
	}
}

func (r *receiver) refreshed(list []jetstream.Msg, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range list {
		if id := sequence(m); r.messages[id] != nil {
			r.until[id] = at.Add(r.AckWait)
		}
	}
}

// acknowledge ends a message, unless another process may have it. It retries until ctx ends: otherwise the message would run again.
func (r *receiver) acknowledge(ctx context.Context, m jetstream.Msg) {
	for r.owns(m) {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := m.DoubleAck(once) // confirmed by the server
		cancel()
		if err == nil || !wait(ctx, time.Second) {
			break
		}
	}
	r.end(m)
}

func (r *receiver) end(m jetstream.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.messages, sequence(m))
	delete(r.until, sequence(m))
}

// handBack lets the server deliver messages immediately. Without it they would follow after AckWait.
func (r *receiver) handBack(ctx context.Context, list []jetstream.Msg) {
	for _, m := range list {
		if r.owns(m) {
			_ = m.Nak()
		}
		r.end(m)
	}
	flush, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := r.Conn.FlushWithContext(flush); err != nil {
		slog.WarnContext(ctx, "handing messages back", "error", err)
	}
}

// wait returns true after d, or false when ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
