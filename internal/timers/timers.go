// Package timers is one loop for everything that is due at some time. Timers that are due at about the same time fire in one
// round, so that the commands that they cause can share a pipeline.
package timers

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/lockmw/go/internal/clock"
)

// Never is the Instant of a timer that never fires.
const Never = clock.Instant(math.MaxInt64)

// An Owner owns a Timer. The loop's goroutine calls Due when the Timer is due, so Due must not wait for anything.
type Owner interface{ Due() }

// A Timer is an entry of a Schedule, and a field of its Owner. The zero value has no Owner until SetOwner sets one.
type Timer struct {
	owner Owner
	at    clock.Instant
	slack time.Duration // how early it may fire
	index int           // index in the heap + 1; 0: not set
}

// SetOwner sets the Owner of the Timer. It must be called before the Timer is set.
func (t *Timer) SetOwner(owner Owner) { t.owner = owner }

// A Schedule calls Owners when their Timers are due. It is safe for concurrent use, and has a goroutine from the first Set to
// Stop.
type Schedule struct {
	rounded func() // called at the end of each round
	wake    chan struct{}
	quit    chan struct{}
	wg      sync.WaitGroup

	mu      sync.Mutex
	timers  timerHeap
	running bool
	stopped bool
	sleeps  clock.Instant // until when the loop sleeps
	idle    bool          // at its last check, the loop had nothing to wait for
}

// idleNap is how long an idle loop sleeps before it checks again. Only then does it sleep until it is woken. Otherwise locks that
// come and go quickly would wake it each time.
const idleNap = 50 * time.Millisecond

// New returns a Schedule that calls rounded in its goroutine after each round, when it has called all Owners whose Timers were
// due.
func New(rounded func()) *Schedule {
	return &Schedule{rounded: rounded, wake: make(chan struct{}, 1), quit: make(chan struct{}), sleeps: Never}
}

// maxEarly limits the Timers of a round that fire early. More would be a burst.
const maxEarly = 512

// Set sets or moves a Timer. It may fire early by slack, together with one that is due. Set does nothing after Stop.
func (s *Schedule) Set(t *Timer, at clock.Instant, slack time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	t.at, t.slack = at, slack
	if t.index == 0 {
		heap.Push(&s.timers, t)
	} else {
		heap.Fix(&s.timers, t.index-1)
	}
	if !s.running {
		s.running = true
		s.wg.Go(s.loop)
	}
	if at < s.sleeps {
		s.sleeps = at
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// SetNow sets the Timer to fire now.
func (s *Schedule) SetNow(t *Timer) { s.Set(t, clock.Now(), 0) }

// SetAfter sets the Timer to fire after d, or up to slack earlier.
func (s *Schedule) SetAfter(t *Timer, d, slack time.Duration) { s.Set(t, clock.Now().Add(d), slack) }

// Remove removes a Timer from the Schedule.
func (s *Schedule) Remove(t *Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.index != 0 {
		heap.Remove(&s.timers, t.index-1)
	}
}

// Go runs f, which would delay the loop, in a goroutine that Stop waits for. An Owner may call Go when it is due.
func (s *Schedule) Go(f func()) { s.wg.Go(f) }

// Stop ends the loop, and waits for it and for the goroutines of Go.
func (s *Schedule) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	close(s.quit)
	s.wg.Wait()
}

// Owners returns the Owners of all Timers that are set.
func (s *Schedule) Owners() (owners []Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.timers {
		owners = append(owners, t.owner)
	}
	return owners
}

// loop runs until Stop. It never waits for a time.Timer that is already due: two goroutines that do so at the same time in a
// bubble of testing/synctest crash the race detector (go.dev/issue/78156).
func (s *Schedule) loop() {
	sleep := time.NewTimer(idleNap)
	defer sleep.Stop()
	for {
		due, next := s.due()
		if len(due) > 0 {
			for _, t := range due {
				t.owner.Due()
			}
			s.rounded()
			continue // the Owners may have set new timers
		}
		if !s.sleep(sleep, next) {
			return
		}
	}
}

// sleep returns true at the time next or when the loop is woken, and false when the loop is stopped. Unless next is Never, it
// checks the clock regularly, because the timer stops while the machine sleeps.
func (s *Schedule) sleep(timer *time.Timer, next clock.Instant) bool {
	for now := clock.Now(); now < next; now = clock.Now() {
		if next != Never {
			timer.Reset(min(next.Sub(now), clock.Interval))
		}
		select {
		case <-s.quit:
			return false
		case <-s.wake:
			return true
		case <-timer.C:
			clock.DetectSkips()
		}
	}
	return true
}

// due removes the timers that are due, and returns when the next one is due.
func (s *Schedule) due() (due []*Timer, next clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	early := 0
	for len(s.timers) > 0 && s.timers[0].at.Add(-s.timers[0].slack) <= now {
		if s.timers[0].at > now {
			if early++; len(due) == 0 || early > maxEarly {
				break
			}
		}
		due = append(due, heap.Pop(&s.timers).(*Timer))
	}
	switch {
	case len(due) > 0:
		next = now
	case len(s.timers) > 0:
		next = s.timers[0].at
	case !s.idle:
		next = now.Add(idleNap)
	default:
		next = Never
	}
	s.idle = len(s.timers) == 0
	s.sleeps = next
	return due, next
}

// A timerHeap implements heap.Interface.
type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	return t
}
