package judge

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// A Pace is how fast this process gets on, and the servers that it watches: side by side with others they may have to
// wait for a processor. Bounds of what happens at once count only the time in which all had one. A nil pace is that of a
// bubble, whose time stands still meanwhile.
type Pace struct {
	mu     sync.Mutex
	delays []delay              // in their order, and apart
	due    map[string]time.Time // when what is measured is to go on, or to answer, by its name
}

// A delay is that something went on later than it was to.
type delay struct{ from, until time.Time }

const (
	paceTick = 10 * time.Millisecond
	paceLook = time.Millisecond     // in the place of a tick, after a delay: another one may follow at once
	paceIdle = 3 * time.Millisecond // so late is a goroutine, or an answer, on any machine
)

// NewPace measures the pace until the test ends.
func NewPace(t testing.TB) *Pace {
	p := &Pace{due: make(map[string]time.Time)}
	t.Cleanup(func() {
		t.Logf("goroutines and servers were late by %v in all", p.lost(time.Time{}, time.Now()).Round(time.Millisecond))
	})
	p.measure(t, "", nil)
	return p
}

// Watch measures the pace of a server, too, until the test ends: ask waits for an answer that takes it no time.
func (p *Pace) Watch(t testing.TB, server string, ask func()) { p.measure(t, server, ask) }

// measure measures a server, or goroutines if there is nothing to ask.
func (p *Pace) measure(t testing.TB, name string, ask func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := paceTick; ; {
			timer := time.NewTimer(tick)
			if ask == nil {
				p.begin(name, time.Now().Add(tick))
			}
			select {
			case <-timer.C:
			case <-quit:
				timer.Stop()
				return
			}
			if ask != nil {
				p.begin(name, time.Now())
				ask()
			}
			tick = paceTick
			if p.end(name) {
				tick = paceLook
			}
		}
	})
	t.Cleanup(func() {
		close(quit)
		wg.Wait()
	})
}

// begin notes when something is due.
func (p *Pace) begin(name string, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due[name] = due
}

// end notes that it is there, and returns whether it was late.
func (p *Pace) end(name string) (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := delay{p.due[name].Add(paceIdle), time.Now()}
	delete(p.due, name)
	if late = d.until.After(d.from); late {
		p.note(d)
	}
	return late
}

// note adds a delay that ends last of all. What was late at the same time counts once.
func (p *Pace) note(d delay) {
	n := len(p.delays)
	for ; n > 0 && !p.delays[n-1].until.Before(d.from); n-- {
		d.from = earlier(d.from, p.delays[n-1].from)
	}
	p.delays = append(p.delays[:n], d)
}

// lost is how much of the time from one instant to another was lost by delays, also by one that has not ended: whoever
// asks may have gone on earlier than the goroutine that measures.
func (p *Pace) lost(from, to time.Time) (total time.Duration) {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end := to // of what has ended; from then on all is lost
	for _, due := range p.due {
		end = earlier(end, due.Add(paceIdle))
	}
	end = later(end, from)
	n, _ := slices.BinarySearchFunc(p.delays, from, func(d delay, t time.Time) int { return d.until.Compare(t) })
	for _, d := range p.delays[n:] {
		total += max(0, earlier(d.until, end).Sub(later(d.from, from)))
	}
	return total + max(0, to.Sub(end))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Between is the time that this process and the servers had from one instant to another.
func (p *Pace) Between(from, to time.Time) time.Duration { return to.Sub(from) - p.lost(from, to) }

// Since is between from and now.
func (p *Pace) Since(from time.Time) time.Duration { return p.Between(from, time.Now()) }

// Wait returns whether done is closed before they had that much time.
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
