package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// tolerance is how far the wall clock may move against the monotonic one before that counts. Some systems read the two with a
// granularity of up to 16 ms.
const tolerance = int64(20 * time.Millisecond)

// process is the time that this process has skipped.
var process skips

// A skips adds up the time that the monotonic clock has skipped. It knows by how much the other clocks of the system were ahead of
// the monotonic one when they were last compared.
type skips struct {
	skipped atomic.Int64 // in all, in ns
	wall    atomic.Int64 // by how much the wall clock is ahead, in ns

	mu   sync.Mutex // held while the clocks are read for note
	boot int64      // by how much the clock that includes sleep is ahead, in ns
}

// A reading is what the clocks of the system show in one moment, in ns. A delay while they are read makes the others look as if
// they were less far ahead of the monotonic one, never further.
type reading struct {
	wall, mono int64
	boot       int64
	hasBoot    bool
	exact      bool // they were read without a delay
}

// isOff reports whether the wall clock, which is ahead by so much, has moved against the monotonic one. That is so after a
// sleep or a step.
func (s *skips) isOff(ahead int64) bool {
	off := ahead - s.wall.Load()
	return off > tolerance || off < -tolerance
}

// note adds what has been skipped since the last reading. Sleep moves both other clocks, so the larger difference counts, once.
// s.mu is held.
func (s *skips) note(r reading) {
	wall, boot := r.wall-r.mono, s.boot
	if !r.exact {
		wall = max(wall, s.wall.Load())
	}
	if r.hasBoot {
		boot = r.boot - r.mono
	}
	passed := max(wall-s.wall.Load(), boot-s.boot)
	switch {
	case passed > tolerance:
		s.skipped.Add(passed) // before the rest: a goroutine that sees the new difference needs the new sum
		s.boot = boot
		s.wall.Store(wall)
	case s.wall.Load()-wall > tolerance: // the wall clock was set back
		s.wall.Store(wall)
	}
}

// Look looks for time that was skipped. Now does so by itself, by the wall clock alone. Look also sees a sleep during which the
// wall clock was set back by as much. It is for whatever wakes up anyway.
func Look() {
	process.mu.Lock() // before the clocks are read: an old reading would look like a step back
	defer process.mu.Unlock()
	if r, ok := read(); ok {
		process.note(r)
	}
}

// read reads the clocks of the system. It returns false in a bubble of testing/synctest, which has one clock.
func read() (r reading, ok bool) {
	for range 10 {
		begun := time.Now()
		if begun == begun.Round(0) { //nolint:staticcheck // Equal would not see whether there is a monotonic time
			return r, false // it has no monotonic time
		}
		r.boot, r.hasBoot = bootTime()
		t := time.Now()
		r.wall, r.mono = t.UnixNano(), int64(t.Sub(start))
		if r.exact = int64(t.Sub(begun)) < tolerance/4; r.exact {
			break
		}
	}
	return r, true
}

func init() {
	process.wall.Store(start.UnixNano())
	if r, ok := read(); ok && r.hasBoot {
		process.boot = r.boot - r.mono
	}
}

// Skip lets time pass that the monotonic clock does not show, as a sleep of the machine does. It is for tests. It moves the clock
// of the whole process: a test that uses it must not run in parallel with others.
func Skip(d time.Duration) { process.skipped.Add(int64(d)) }
