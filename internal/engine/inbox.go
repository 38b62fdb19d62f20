package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// An inbox is the one channel on which this process is told of grants, and its one subscription,
// which begins with the first contention. Whatever is lost on the way is found by polling.
type inbox struct {
	channel string
	address any         // channel, as an argument of a command
	live    atomic.Bool // subscribed, as far as is known
	// The number of the subscription, 0 while there is none: whoever knows it knows that nothing was
	// missed since.
	subscription  atomic.Int64
	subscriptions int64 // so far

	wg      sync.WaitGroup
	mu      sync.Mutex
	started bool
	stopped bool
	pubsub  *redis.PubSub
}

const (
	// inboxSilence is after how long without a message the connection is tested.
	inboxSilence = 5 * time.Second
	inboxRetry   = 50 * time.Millisecond
)

// start subscribes, once.
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

// receive keeps the subscription alive until stop.
func (b *inbox) receive(e *Engine) {
	warned := false
	for {
		err := b.subscribe(e)
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

// subscribe handles messages until the connection fails, or is silent when it is tested.
func (b *inbox) subscribe(e *Engine) error {
	ctx := e.sender.Context()
	pubsub := e.rdb.Subscribe(ctx)
	defer func() { _ = pubsub.Close() }()
	if err := pubsub.Subscribe(ctx, b.channel); err != nil {
		return err
	}
	b.mu.Lock()
	b.pubsub = pubsub // not before: its Close would wait for a Subscribe that is not answered
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

// pause waits a little; false if ctx ended.
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
			e.pollNow() // pushes may have been missed
		}
	case *redis.Message:
		if m, ok := script.ParseMessage(m.Payload); ok {
			e.received(&m)
		}
	}
}

// received deals with a message of a script.
func (e *Engine) received(m *script.Message) {
	switch m.Kind {
	case script.Granted:
		e.grantPushed(m)
	case script.Contended:
		switch v := e.find(m.ID).(type) {
		case *lease:
			v.c.shard.mu.Lock()
			v.calledAt = e.now()
			v.isContended(true)
			v.c.shard.mu.Unlock()
		case *request: // it has the lock, and its answer is on the way
			v.c.shard.mu.Lock()
			v.contended = true
			v.c.shard.mu.Unlock()
		}
	case script.TakenAway:
		switch v := e.find(m.ID).(type) {
		case *lease:
			v.takenAway()
		case *request:
			v.takenAway()
		}
	}
}

// grantPushed deals with the news that the server has granted the lock to an id.
func (e *Engine) grantPushed(m *script.Message) {
	switch v := e.find(m.ID).(type) {
	case *request:
		if v.wants(m) {
			return
		}
	case *lease:
		return // known already
	}
	// Nobody waits for it any more, and it has been cancelled if it was not released; the cancel may
	// have been lost with its connection.
	if key, ok := e.layout.Key(m.Holder); ok && strings.HasPrefix(m.ID, string(e.idStem)) {
		e.cancel(e.layout.KeySet(key), unwanted{id: m.ID, lease: script.AcceptWindow, mark: true})
	}
}

// find returns the *request or *lease that an id stands for; nil if it is over, or not of this engine.
func (e *Engine) find(id string) any {
	if n, ok := e.idStem.Number(id); ok {
		return e.ids.find(n)
	}
	return nil
}

// wants makes use of a push; false if nobody waits for it and nobody has it.
func (r *request) wants(m *script.Message) bool {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	if r.over {
		_, held := r.c.e.ids.find(r.id.Number()).(*lease) // an answer that came just before said so too
		return held
	}
	r.pushed(m)
	return true
}

// pollNow polls for all requests that are queued.
func (e *Engine) pollNow() {
	for _, r := range e.ids.requests() {
		r.c.shard.mu.Lock()
		if !r.over && r.queued {
			e.schedule.set(&r.timer, e.now(), 0)
		}
		r.c.shard.mu.Unlock()
	}
}

// takenAway ends a lease that an operator gave to others.
func (l *lease) takenAway() {
	l.c.shard.mu.Lock()
	if l.over {
		l.c.unlock()
		return
	}
	lost := l.end(errTakenAway)
	l.c.unlock()
	tellLost(lost)
}

// takenAway forgets a grant that the request has not made use of yet.
func (r *request) takenAway() {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	r.push = nil
	if !r.over && r.queued {
		r.c.e.schedule.set(&r.timer, r.c.e.now(), 0)
	}
}

var errTakenAway = fmt.Errorf("%w: an operator released it", core.ErrLost)
