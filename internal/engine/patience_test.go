package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/clock"
)

// A server that is 300 ms away must be able to renew a lease of 3 s until its end.
func TestARenewalMayTakeLongerThanTheNextOneWaitsForIt(t *testing.T) {
	for _, duration := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 30 * time.Second, 24 * time.Hour} {
		l := &lease{duration: duration}
		end := clock.Instant(duration)
		l.expires.Store(int64(end))
		for now := clock.Instant(0); now < end; now = now.Add(duration / 100) {
			patience, pace, left := l.renewalTimeout(now), l.retryInterval(now), end.Sub(now)
			if patience > max(left, minPace) || patience < min(left, time.Second) || patience < min(left, 2*pace) {
				t.Errorf("%v left of %v: a renewal may take %v, the next one comes after %v", left, duration, patience, pace)
			}
		}
	}
}
