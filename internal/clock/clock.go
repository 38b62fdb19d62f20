// Package clock measures elapsed time for everything that decides about a hold: deadlines, maximum holds, leases.
//
//	deadline := clock.Now().Add(lease)
//	if clock.Until(deadline) <= 0 { … } // the hold has ended
//
// Its time only moves forward. On most systems the monotonic clock of Go stops while the machine sleeps, and while a virtual
// machine is suspended. An Instant therefore counts the time on the monotonic clock, and adds the time that this clock has
// skipped: time asleep, and every step forward of the wall clock. The wall clock is the only trace of a virtual machine that was
// restored from a snapshot. A step back changes nothing. So a hold may end early, and never ends late.
//
// Times that must not end early, such as a minimum hold or a quarantine, are measured by time.Now. So is everything that only
// waits, polls or retries.
package clock

import (
	"math"
	"time"
)

// An Instant is a time on this clock, in ns. The zero Instant means "none", and is before all others. Instants of one process can
// be compared.
type Instant int64

// age is the Instant at which the process started. Bubbles of testing/synctest begin decades earlier, and also need positive
// Instants.
const age = 100 * 365 * 24 * time.Hour

// start is when the process started.
var start = time.Now()

// Now returns the current Instant. It costs about as much as time.Now.
func Now() Instant {
	_, i := Both()
	return i
}

// Since returns how much time has passed since i.
func Since(i Instant) time.Duration { return Now().Sub(i) }

// Until returns how much time is left until i.
func Until(i Instant) time.Duration { return i.Sub(Now()) }

// Both returns the current time of time.Now and the Instant of that moment. It costs little more than Now alone.
func Both() (time.Time, Instant) {
	t := time.Now()
	mono := int64(t.Sub(start))
	if process.isOff(t.UnixNano() - mono) {
		DetectSkips()
		t = time.Now()
		mono = int64(t.Sub(start))
	}
	return t, Instant(int64(age) + mono + process.skipped.Load())
}

// Add returns i + d.
func (i Instant) Add(d time.Duration) Instant {
	if d > 0 && int64(i) > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return i + Instant(d)
}

// Sub returns i - u.
func (i Instant) Sub(u Instant) time.Duration { return time.Duration(i - u) }

// Before reports whether i is before u.
func (i Instant) Before(u Instant) bool { return i < u }

// IsZero reports whether i means "none".
func (i Instant) IsZero() bool { return i == 0 }

// Time returns i on the clock that time.Now reads. It can be compared with time.Now until the monotonic clock skips time again.
// The zero Instant becomes the zero Time.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	t, at := Both()
	return t.Add(i.Sub(at))
}
