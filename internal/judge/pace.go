package judge

import (
	"slices"
	"sync"
	"time"
)

// A Pace measures delays of this process and of the servers that it watches: with other tests running, they may have to wait
// for a processor. Bounds of immediate events exclude such delays. A nil Pace is for bubbles, whose time stands still during
// work.
type Pace struct {
	mu     sync.Mutex
	delays []delay              // in order, without overlaps
	due    map[string]time.Time // by name, when a goroutine should continue or a server should answer
}

// A delay is the time between a due event and the event.
type delay struct{ from, until time.Time }

const (
	paceTick = 10 * time.Millisecond
	paceLook = time.Millisecond     // instead of a tick after a delay: another one may follow immediately
	paceIdle = 3 * time.Millisecond // usual lateness of a goroutine or an answer
)

// NewPace measures delays until stop.
func NewPace() (p *Pace, stop func()) {
	p = &Pace{due: make(map[string]time.Time)}
	stop = p.measure("", nil)
	return p, stop
}

// Watch also measures the delays of a server until stop. ask sends a trivial request and waits for the answer.
func (p *Pace) Watch(server string, ask func()) (stop func()) { return p.measure(server, ask) }

// measure measures a server, or goroutines if ask is nil.
func (p *Pace) measure(name string, ask func()) (stop func()) {
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
	return func() {
		close(quit)
		wg.Wait()
	}
}

// begin records when an event is due.
func (p *Pace) begin(name string, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due[name] = due
}

// end records the event and reports whether it was late.
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

// note adds a delay that ends after all others. It merges overlapping delays.
func (p *Pace) note(d delay) {
	n := len(p.delays)
	for ; n > 0 && !p.delays[n-1].until.Before(d.from); n-- {
		d.from = earlier(d.from, p.delays[n-1].from)
	}
	p.delays = append(p.delays[:n], d)
}

// Delays returns the delays between two instants in the machine's time, in order and without overlaps. They include those that have
// not ended: the caller may run before the measuring goroutine. A nil Pace has none.
func (p *Pace) Delays(from, to time.Time) (all []Interval) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end := to // of finished delays; all time after it is lost
	for _, due := range p.due {
		end = earlier(end, due.Add(paceIdle))
	}
	end = later(end, from)
	add := func(from, to time.Time) {
		if from.Before(to) {
			all = append(all, Interval{MachineTime(from), MachineTime(to)})
		}
	}
	n, _ := slices.BinarySearchFunc(p.delays, from, func(d delay, t time.Time) int { return d.until.Compare(t) })
	for _, d := range p.delays[n:] {
		add(later(d.from, from), earlier(d.until, end))
	}
	add(end, to)
	return all
}

// lost returns the total of delays between two instants.
func (p *Pace) lost(from, to time.Time) time.Duration {
	return Sum(p.Delays(from, to))
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// Between returns the time between two instants without delays.
func (p *Pace) Between(from, to time.Time) time.Duration { return to.Sub(from) - p.lost(from, to) }

// Since is Between from and now.
func (p *Pace) Since(from time.Time) time.Duration { return p.Between(from, time.Now()) }
