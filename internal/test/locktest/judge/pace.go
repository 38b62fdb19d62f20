package judge

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// A Pace is how fast this process gets on: side by side with others it may have to wait for a processor.
// Bounds of what happens at once count only the time in which it had one. A nil pace is that of a bubble,
// whose time stands still meanwhile.
type Pace struct {
	mu     sync.Mutex
	delays []delay
}

// A delay is that a goroutine went on later than it was to.
type delay struct {
	until time.Time
	total time.Duration // of all delays so far
}

const (
	paceTick = 10 * time.Millisecond
	paceIdle = 3 * time.Millisecond // so late is a goroutine on any machine
)

// NewPace measures the pace until the test ends.
func NewPace(t testing.TB) *Pace {
	p := new(Pace)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { p.measure(quit) })
	t.Cleanup(func() {
		close(quit)
		wg.Wait()
		t.Logf("goroutines were late by %v in all", p.lost(time.Time{}, time.Now()).Round(time.Millisecond))
	})
	return p
}

func (p *Pace) measure(quit chan struct{}) {
	timer := time.NewTimer(paceTick)
	defer timer.Stop()
	for due := time.Now().Add(paceTick); ; due = time.Now().Add(paceTick) {
		select {
		case <-timer.C:
		case <-quit:
			return
		}
		now := time.Now()
		if late := now.Sub(due) - paceIdle; late > 0 {
			p.note(now, late)
		}
		timer.Reset(paceTick)
	}
}

func (p *Pace) note(until time.Time, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.delays); n > 0 {
		late += p.delays[n-1].total
	}
	p.delays = append(p.delays, delay{until, late})
}

// lost is how much later than without delays a goroutine is that went on from one time to another.
func (p *Pace) lost(from, to time.Time) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before(to) - p.before(from)
}

// before is the total of the delays that have ended by then.
func (p *Pace) before(then time.Time) time.Duration {
	n, _ := slices.BinarySearchFunc(p.delays, then, func(d delay, t time.Time) int { return d.until.Compare(t) })
	if n == 0 {
		return 0
	}
	return p.delays[n-1].total
}

// Between is the time that this process had from one time to another.
func (p *Pace) Between(from, to time.Time) time.Duration { return to.Sub(from) - p.lost(from, to) }

// Since is between from and now.
func (p *Pace) Since(from time.Time) time.Duration { return p.Between(from, time.Now()) }

// Wait returns whether done is closed before this process had that much time.
func (p *Pace) Wait(done <-chan struct{}, within time.Duration) bool {
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

// Await waits for that much time until done returns nothing, and else returns what it returned last.
func (p *Pace) Await(within time.Duration, done func() string) (missing string) {
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
