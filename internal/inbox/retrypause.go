package inbox

import (
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/pause"
)

// MinRetryPause is the first pause before a failed connection is replaced.
const MinRetryPause = 50 * time.Millisecond

// MaxRetryPause limits the following pauses. They double, and each is shortened at random by up to a half, so that processes do
// not reconnect together.
const MaxRetryPause = time.Second

// subscribeAgain subscribes to inboxes after the pause for that many failures. The goroutine that calls it must be one of all.wg.
func (all *Inboxes) subscribeAgain(list []*Inbox, failures int) {
	if !all.awaitRetry(failures) {
		return
	}
	for _, b := range list {
		all.subscribe(b)
	}
}

// awaitRetry waits until a connection is to be retried, after that many failures in a row. The pause ends early when ReconnectNow
// is called, and lasts until then if no message matters. It returns false when the Inboxes have stopped.
func (all *Inboxes) awaitRetry(failures int) bool {
	ctx, hurry := all.Sender.Context(), all.pauseSkipped()
	if !pause.For(ctx, MinRetryPause) {
		return false
	}
	for left := min(MinRetryPause<<min(failures-1, 10), MaxRetryPause) - MinRetryPause; left > 0; left = MaxRetryPause {
		select {
		case <-time.After(left/2 + rand.N(left/2+1)):
		case <-hurry:
			return true
		case <-ctx.Done():
			return false
		}
		if !all.Reader.IsIdle() {
			break
		}
	}
	return true
}

// pauseSkipped returns a channel that ReconnectNow closes.
func (all *Inboxes) pauseSkipped() <-chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.skipPause == nil {
		all.skipPause = make(chan struct{})
	}
	return all.skipPause
}

// ReconnectNow ends the pauses before reconnects, because a call has begun to wait for the messages of b.
func (all *Inboxes) ReconnectNow(b *Inbox) {
	if b.IsLive() {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.skipPause != nil {
		close(all.skipPause)
		all.skipPause = nil
	}
}
