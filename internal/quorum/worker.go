package quorum

import (
	"time"

	"github.com/lockmw/go/internal/clock"
)

// Requests are sent by goroutines that wait for the next one when they are done: their stacks have grown by then, which takes
// a good part of the time of a short request in a new one.

const (
	// idleTime is for how long a goroutine waits for something to run.
	idleTime = time.Second
	// maxIdle is how many wait at most.
	maxIdle = 64
)

// spawn runs f in a goroutine that Close waits for. l.mu is held.
func (l *Locks) spawn(f func()) {
	select {
	case l.work <- f: // one is idle
	default:
		l.wg.Go(func() { l.runAll(f) })
	}
}

// runAll runs f, and then what others spawn.
func (l *Locks) runAll(f func()) {
	for f != nil {
		f()
		f = l.nextWork()
	}
}

// nextWork returns what is to be run next; nil ends the goroutine.
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
