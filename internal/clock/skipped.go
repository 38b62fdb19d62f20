package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// tolerance is how far the wall clock may move against the monotonic clock without being counted. Some systems read the two with
// a granularity of up to 16 ms.
const tolerance = int64(20 * time.Millisecond)

// process is the time that this process has skipped.
var process skips

// A skips adds up the time that the monotonic clock has skipped. It keeps how far the other clocks of the system were ahead of
// the monotonic one when they were last compared.
type skips struct {
	skipped atomic.Int64 // in all, in ns
	wall    atomic.Int64 // how far the wall clock is ahead, in ns

	mu   sync.Mutex // held while the clocks are read for note
	boot int64      // how far the clock that includes sleep is ahead, in ns
}

// A reading is the time on the clocks of the system at one moment, in ns. A delay while they are read makes the others appear
// less far ahead of the monotonic clock, never further.
type reading struct {
	wall, mono int64
	boot       int64
	hasBoot    bool
	exact      bool // read without a delay
}

// isOff reports whether the wall clock, which is ahead by that much, has moved against the monotonic one. It has after a sleep or
// a step.
func (s *skips) isOff(ahead int64) bool {
	off := ahead - s.wall.Load()
	return off > tolerance || off < -tolerance
}

// note adds the time skipped since the last reading. Sleep moves both other clocks, so the larger difference counts, once. s.mu
// is held.
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

// DetectSkips detects time that was skipped. Now does so by itself, with the wall clock alone. DetectSkips also sees a sleep
// during which the wall clock was set back by as much. Loops and timers call it when they wake.
func DetectSkips() {
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
			return r, false // time.Now has no monotonic time here
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

// Skip adds time that the monotonic clock does not show, like a sleep of the machine. It is for tests. It moves the clock of the
// whole process, so a test that uses it must not run in parallel with others.
func Skip(d time.Duration) { process.skipped.Add(int64(d)) }
