package engine

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
)

// An inbox is the one channel on which this process learns of grants, and its one subscription. The
// subscription begins with the first contention. Polls find what gets lost on the way (rule 7 of docs/protocol.md).
type inbox struct {
	channel string
	address any         // channel, as an argument of a command
	live    atomic.Bool // subscribed, as far as is known
	// The number of the subscription; 0 while there is none. As long as it stays the same no message was
	// missed.
	subscription  atomic.Int64
	subscriptions int64 // so far

	wg      sync.WaitGroup
	mu      sync.Mutex
	started bool
	stopped bool
	pubsub  *redis.PubSub

	silent silentInbox
}

const (
	// inboxSilence is after how long without a message the connection is tested by a PING.
	inboxSilence = 5 * time.Second
	inboxRetry   = 50 * time.Millisecond
)

// start begins the subscription, once.
func (b *inbox) start(e *Engine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.stopped {
		return
	}
	b.started = true
	b.wg.Go(func() { b.receive(e) })
}

// stop ends the subscription.
func (b *inbox) stop() {
	b.mu.Lock()
	b.stopped = true
	if b.pubsub != nil {
		_ = b.pubsub.Close() // ends a Receive that is under way
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// subscribeAnew ends the subscription, and so begins another one.
func (b *inbox) subscribeAnew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pubsub != nil && !b.stopped {
		_ = b.pubsub.Close() // ends a Receive that is under way
	}
}

// receive keeps the subscription alive until stop.
func (b *inbox) receive(e *Engine) {
	warned := false
	for {
		err := b.subscribe(e)
		e.sender.Note(err)
		b.live.Store(false)
		b.subscription.Store(0)
		if script.IsFinal(err) && !warned {
			warned = true
			e.cfg.Logger.Warn("lockmw: not allowed to subscribe; waiting for locks goes by polling, which is slow",
				"channel", b.channel, "error", err)
		}
		if !pause(e.sender.Context(), inboxRetry) {
			return
		}
	}
}

// subscribe handles messages until the connection fails, or does not answer the PING.
func (b *inbox) subscribe(e *Engine) error {
	ctx := e.sender.Context()
	pubsub := e.rdb.Subscribe(ctx)
	defer func() { _ = pubsub.Close() }()
	if err := pubsub.Subscribe(ctx, b.channel); err != nil {
		return err
	}
	b.mu.Lock()
	b.pubsub = pubsub // not earlier: its Close would wait for a Subscribe that is not answered
	stopped := b.stopped
	b.mu.Unlock()
	if stopped {
		return redis.ErrClosed
	}
	for tested := false; ; {
		message, err := pubsub.ReceiveTimeout(ctx, inboxSilence)
		switch {
		case err == nil:
			tested = false
			b.handle(e, message)
		case tested || !isTimeout(err):
			return err
		default:
			tested = true
			if err := pubsub.Ping(ctx); err != nil {
				return err
			}
		}
	}
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// pause returns true after d, or false when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *inbox) handle(e *Engine, message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			b.live.Store(true)
			b.subscriptions++
			b.subscription.Store(b.subscriptions)
			if b.subscriptions > 1 {
				e.recovery.plan() // the server of the last one may be away
			}
			e.pollAll() // messages may have been missed
		}
	case *redis.Message:
		if m, ok := script.ParseMessage(m.Payload); ok {
			e.onMessage(&m)
		}
	}
}

// onMessage deals with a message of a script.
func (e *Engine) onMessage(m *script.Message) {
	switch m.Kind {
	case script.Granted:
		e.onGrant(m)
	case script.Contended:
		switch v := e.find(m.ID).(type) {
		case *lease:
			v.c.shard.mu.Lock()
			v.contendedAt = e.now()
			v.setContended(true)
			v.c.shard.mu.Unlock()
		case *request: // it has the lock, and the answer that says so is on the way
			v.c.shard.mu.Lock()
			v.contended = true
			v.c.shard.mu.Unlock()
		}
	case script.TakenAway:
		switch v := e.find(m.ID).(type) {
		case *lease:
			v.onTakenAway()
		case *request:
			v.onTakenAway()
		}
	}
}

// onGrant deals with a message that the server has granted the lock to an id.
func (e *Engine) onGrant(m *script.Message) {
	e.inbox.silent.heard(m.ID)
	switch v := e.find(m.ID).(type) {
	case *request:
		if v.accepts(m) {
			return
		}
	case *lease:
		return // known already
	}
	// No caller wants the id any more. It was released or cancelled, but the cancel may have been lost
	// with its connection.
	if key, ok := e.layout.Key(m.Holder); ok && strings.HasPrefix(m.ID, string(e.idStem)) {
		e.cancelID(e.layout.KeySet(key), cancelTarget{id: m.ID, lease: script.AcceptWindow, mark: true})
	}
}

// find returns the *request or *lease of an id; nil if the id is over or of another engine.
func (e *Engine) find(id string) any {
	if n, ok := e.idStem.Number(id); ok {
		return e.ids.find(n)
	}
	return nil
}

// accepts uses a message of a grant. It returns false if no caller waits for the id or holds it.
func (r *request) accepts(m *script.Message) bool {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	if r.over {
		_, held := r.c.e.ids.find(r.id.Number()).(*lease) // an answer that came just before granted it
		return held
	}
	r.onPush(m)
	return true
}

// pollAll polls for all queued requests now.
func (e *Engine) pollAll() {
	for _, r := range e.ids.requests() {
		r.c.shard.mu.Lock()
		if !r.over && r.queued {
			e.schedule.set(&r.timer, e.now(), 0)
		}
		r.c.shard.mu.Unlock()
	}
}
