package inbox

import (
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/pause"
)

// Retry is the pause before a connection that failed is tried again for the first time.
const Retry = 50 * time.Millisecond

// LongestRetry is the longest of the pauses that follow. They double, and each is shortened at random by up to a half, so that
// processes do not come together.
const LongestRetry = time.Second

// subscribeAgain has inboxes subscribed to after the pause that follows so many failures. The goroutine that calls it is one of all.wg.
func (all *Inboxes) subscribeAgain(list []*Inbox, failures int) {
	if !all.awaitRetry(failures) {
		return
	}
	for _, b := range list {
		all.subscribe(b)
	}
}

// awaitRetry waits until a connection is to be tried again, after so many failures in a row. The pause ends early when HurryUp is
// called, and lasts until then if no message can matter. It returns false when the Inboxes have stopped.
func (all *Inboxes) awaitRetry(failures int) bool {
	ctx, hurry := all.Sender.Context(), all.hurried()
	if !pause.For(ctx, Retry) {
		return false
	}
	for left := min(Retry<<min(failures-1, 10), LongestRetry) - Retry; left > 0; left = LongestRetry {
		timer := time.NewTimer(left/2 + rand.N(left/2+1))
		select {
		case <-timer.C:
		case <-hurry:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		if !all.Reader.IsIdle() {
			break
		}
	}
	return true
}

// hurried returns a channel that HurryUp closes.
func (all *Inboxes) hurried() <-chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.hurry == nil {
		all.hurry = make(chan struct{})
	}
	return all.hurry
}

// HurryUp ends the pauses before connections are tried again, as a call has begun to wait for the messages of b.
func (all *Inboxes) HurryUp(b *Inbox) {
	if b.IsLive() {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.hurry != nil {
		close(all.hurry)
		all.hurry = nil
	}
}
