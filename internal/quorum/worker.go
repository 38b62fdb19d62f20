package quorum

import (
	"time"

	"github.com/lockmw/go/internal/clock"
)

// Requests are sent by goroutines that wait for the next request when they are done. Their stacks have grown by then; in a new
// goroutine, growing the stack takes a good part of the time of a short request.

const (
	// idleTime is how long a goroutine waits for the next request.
	idleTime = time.Second
	// maxIdle is the greatest number of goroutines that wait.
	maxIdle = 64
)

// spawn runs f in a goroutine that Close waits for. l.mu is held.
func (l *Locks) spawn(f func()) {
	select {
	case l.work <- f: // a goroutine was idle
	default:
		l.wg.Go(func() { l.runAll(f) })
	}
}

// runAll runs f, and then other functions that are spawned.
func (l *Locks) runAll(f func()) {
	for f != nil {
		f()
		f = l.nextWork()
	}
}

// nextWork returns the next function to run; nil ends the goroutine.
func (l *Locks) nextWork() func() {
	defer l.idle.Add(-1)
	if l.idle.Add(1) > maxIdle {
		return nil
	}
	select {
	case f := <-l.work:
		return f
	case <-l.idleTimes.Next(clock.Now()).Done():
		return nil
	}
}
