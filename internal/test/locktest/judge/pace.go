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
	due    time.Time // when the goroutine that measures is to go on; zero: nobody measures
}

// A delay is that a goroutine went on later than it was to.
type delay struct {
	from, until time.Time
	total       time.Duration // of all delays so far
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
	timer := time.NewTimer(p.tick(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-quit:
			return
		}
		timer.Reset(p.tick(time.Now()))
	}
}

// tick notes whether the goroutine that measures is late, and returns when it is to go on the next time.
func (p *Pace) tick(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if late := p.late(now); late > 0 {
		p.note(now, late)
	}
	p.due = now.Add(paceTick)
	return paceTick
}

// late is by how much the goroutine that measures is late, if it has not gone on by then.
func (p *Pace) late(now time.Time) time.Duration {
	if p.due.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.due)-paceIdle)
}

func (p *Pace) note(until time.Time, late time.Duration) {
	total := late
	if n := len(p.delays); n > 0 {
		total += p.delays[n-1].total
	}
	p.delays = append(p.delays, delay{until.Add(-late), until, total})
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

// before is the total of the delays until then, also of one that has not ended: whoever asks may have gone on earlier
// than the goroutine that measures.
func (p *Pace) before(then time.Time) time.Duration {
	n, _ := slices.BinarySearchFunc(p.delays, then, func(d delay, t time.Time) int { return d.until.Compare(t) })
	var total time.Duration
	if n > 0 {
		total = p.delays[n-1].total
	}
	if n < len(p.delays) {
		return total + max(0, then.Sub(p.delays[n].from))
	}
	return total + p.late(then)
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
