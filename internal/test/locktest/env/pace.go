package env

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
)

// newPace measures delays until the end of t.
func newPace(t testing.TB) *judge.Pace {
	start := time.Now()
	p, stop := judge.NewPace()
	t.Cleanup(func() {
		now := time.Now()
		t.Logf("goroutines and servers were late by %v in total", (now.Sub(start) - p.Between(start, now)).Round(time.Millisecond))
	})
	t.Cleanup(stop)
	return p
}

// Wait reports whether done is closed within the given time without delays.
func Wait(p *judge.Pace, done <-chan struct{}, within time.Duration) bool {
	start := time.Now()
	for left := within; ; {
		limit := time.NewTimer(left)
		select {
		case <-done:
			limit.Stop()
			return true
		case <-limit.C:
		}
		if left = within - p.Since(start); left <= 0 {
			return false
		}
	}
}

// Await waits until done returns "". After the given time without delays it returns done's last result.
func Await(p *judge.Pace, within time.Duration, done func() string) (missing string) {
	start := time.Now()
	limit := time.NewTimer(within)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		missing = done()
		if missing == "" {
			return ""
		}
		select {
		case <-limit.C:
			left := within - p.Since(start)
			if left <= 0 {
				return missing
			}
			limit.Reset(left)
		case <-tick.C:
		}
	}
}
