package judge

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Pace measures delays of this process and of the servers that it watches: with other tests running, they may have to wait
// for a processor. Bounds of immediate events exclude such delays. A nil Pace is for bubbles, whose time stands still during
// work.
type Pace struct {
	mu     sync.Mutex
	delays []Interval               // from a due event to the event; in order, without overlaps
	due    map[string]time.Duration // by name, when a goroutine should continue or a server should answer
}

const (
	paceTick = 10 * time.Millisecond
	paceLook = time.Millisecond     // instead of a tick after a delay: another one may follow immediately
	paceIdle = 3 * time.Millisecond // usual lateness of a goroutine or an answer
)

// NewPace measures delays until stop.
func NewPace() (p *Pace, stop func()) {
	p = &Pace{due: make(map[string]time.Duration)}
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
			next := time.After(tick)
			if ask == nil {
				p.begin(name, time.Now().Add(tick))
			}
			select {
			case <-next:
			case <-quit:
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
	p.due[name] = MachineTime(due)
}

// end records the event and reports whether it was late.
func (p *Pace) end(name string) (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := Interval{p.due[name] + paceIdle, MachineTime(time.Now())}
	delete(p.due, name)
	if late = d.From < d.To; late {
		p.note(d)
	}
	return late
}

// note adds a delay that ends after all others. It merges overlapping delays.
func (p *Pace) note(d Interval) {
	n := len(p.delays)
	for ; n > 0 && p.delays[n-1].To >= d.From; n-- {
		d.From = min(d.From, p.delays[n-1].From)
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
	begin, end := MachineTime(from), MachineTime(to)
	lost := end // all time after it is a delay
	for _, due := range p.due {
		lost = min(lost, due+paceIdle)
	}
	lost = max(lost, begin)
	add := func(d Interval) {
		if d.From < d.To {
			all = append(all, d)
		}
	}
	n, _ := slices.BinarySearchFunc(p.delays, begin, func(d Interval, t time.Duration) int { return cmp.Compare(d.To, t) })
	for _, d := range p.delays[n:] {
		add(Interval{max(d.From, begin), min(d.To, lost)})
	}
	add(Interval{lost, end})
	return all
}

// Between returns the time between two instants without delays.
func (p *Pace) Between(from, to time.Time) time.Duration {
	return to.Sub(from) - Sum(p.Delays(from, to))
}

// Since is Between from and now.
func (p *Pace) Since(from time.Time) time.Duration { return p.Between(from, time.Now()) }
