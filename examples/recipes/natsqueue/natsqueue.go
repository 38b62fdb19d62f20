// Package natsqueue consumes a NATS JetStream consumer with several processes, one message at a time for each key.
package natsqueue

import (
	"context"
	"errors"
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
	r := &receiver{Consumer: c, received: make(map[uint64]*delivery)}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx)) // until all handlers have returned
	end, cancel := context.WithCancel(alive)                      // outlives ctx by Grace
	messages := consume.New(locks, key, r.owned(handle), r.givenUp(giveUp), opts...).Open(func(m jetstream.Msg) { r.acknowledge(end, m) })
	var receiving, refreshing sync.WaitGroup
	refreshing.Go(func() { r.refresh(alive) })
	receiving.Go(func() { r.receive(ctx, messages) })

	<-ctx.Done()
	defer time.AfterFunc(c.Grace, cancel).Stop()
	notDone := messages.Close(end)
	receiving.Wait() // a request that waits takes up to a second
	stop()
	refreshing.Wait()
	r.handBack(context.WithoutCancel(ctx), notDone)
	return context.Cause(ctx)
}

type receiver struct {
	Consumer
	mu       sync.Mutex
	received map[uint64]*delivery // by sequence in the stream: received and not done
}

// A delivery is the last one of a message to this process.
type delivery struct {
	jetstream.Msg
	until time.Time // until when the server delivers it to no other process
	left  bool      // to another process
}

// owned returns a handler that leaves a message alone if another process may handle it, or has done so.
func (r *receiver) owned(handle consume.Handler[jetstream.Msg]) consume.Handler[jetstream.Msg] {
	return func(ctx context.Context, m jetstream.Msg) error {
		if !r.owns(m) {
			return nil
		}
		return handle(ctx, m)
	}
}

// givenUp returns a giveUp that leaves a failed message to another process that may have it, for example because this one has lost its
// lock.
func (r *receiver) givenUp(giveUp consume.GiveUp[jetstream.Msg]) consume.GiveUp[jetstream.Msg] {
	return func(ctx context.Context, m jetstream.Msg, attempt int, err error) error {
		switch {
		case !r.owns(m):
			return nil
		case giveUp == nil:
			return err
		}
		return giveUp(ctx, m, attempt, err)
	}
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

// fetch returns messages that are there, or waits for one. They are noted, so that they are refreshed while they wait.
func (r *receiver) fetch() (list []jetstream.Msg, err error) {
	asked := time.Now()
	batch, err := r.Pull.FetchNoWait(10)
	if list = r.begin(asked, batch, err); len(list) > 0 || err != nil {
		return list, err
	}
	asked = time.Now()
	batch, err = r.Pull.Fetch(1, jetstream.FetchMaxWait(min(time.Second, r.AckWait/3)))
	list = r.begin(asked, batch, err)
	if err == nil {
		err = batch.Error()
	}
	return list, err
}

// begin notes messages, and leaves out those that run already: a process that was paused receives its own again. The server may have
// sent a message as early as it was asked for.
func (r *receiver) begin(asked time.Time, batch jetstream.MessageBatch, err error) (list []jetstream.Msg) {
	if err != nil {
		return nil
	}
	for m := range batch.Messages() {
		r.mu.Lock()
		d := r.received[sequence(m)]
		if d == nil {
			d = new(delivery)
			r.received[sequence(m)] = d
			list = append(list, m)
		}
		d.Msg = m
		if until := asked.Add(r.AckWait); until.After(d.until) {
			d.until = until
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

// owns reports whether the server delivers a message to no other process now. If it may, the message is not this one's to acknowledge.
func (r *receiver) owns(m jetstream.Msg) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.received[sequence(m)]
	if d == nil {
		return false
	}
	d.left = !time.Now().Before(d.until)
	return !d.left
}

// refresh tells the server that messages are in hand. A message whose time has passed is not refreshed: it may be in another's hand.
func (r *receiver) refresh(ctx context.Context) {
	for wait(ctx, r.AckWait/3) {
		now := time.Now()
		list := r.inHand(now)
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

func (r *receiver) inHand(now time.Time) (list []jetstream.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.received {
		if now.Before(d.until) {
			list = append(list, d.Msg)
		}
	}
	return list
}

// refreshed notes what the server has heard. If the time of a message has passed meanwhile, the server may have heard it too late.
func (r *receiver) refreshed(list []jetstream.Msg, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, m := range list {
		if d := r.received[sequence(m)]; d != nil && now.Before(d.until) {
			d.until = at.Add(r.AckWait)
		}
	}
}

// acknowledge ends a message, unless it was left to another process. It retries until ctx ends, also if the message's time has passed:
// otherwise the message would run again. It tries once in any case: a handler may have taken longer than Grace.
func (r *receiver) acknowledge(ctx context.Context, m jetstream.Msg) {
	for !r.isLeft(m) {
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err := m.DoubleAck(once) // confirmed by the server
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrMsgAlreadyAckd) || !wait(ctx, time.Second) { // a handler may have called Term
			break
		}
	}
	r.end(m)
}

func (r *receiver) isLeft(m jetstream.Msg) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.received[sequence(m)]
	return d == nil || d.left
}

// end forgets a message, and returns its last delivery.
func (r *receiver) end(m jetstream.Msg) *delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.received[sequence(m)]
	delete(r.received, sequence(m))
	return d
}

// handBack lets the server deliver messages immediately. Without it they would follow after AckWait.
func (r *receiver) handBack(ctx context.Context, list []jetstream.Msg) {
	for _, m := range list {
		r.giveBack(m)
	}
	flush, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := r.Conn.FlushWithContext(flush); err != nil {
		slog.WarnContext(ctx, "handing messages back", "error", err)
	}
}

// giveBack returns a message unless another process may have it.
func (r *receiver) giveBack(m jetstream.Msg) {
	if d := r.end(m); d != nil && time.Now().Before(d.until) {
		_ = d.Nak() // the flush fails if this does
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
