package engine

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/script"
)

// A schedule is one loop for all that is to be done at some time: renewals, deadlines of leases,
// polls, and what failed in the background and is tried again. Renewals that are due at about the
// same time go out in one pipeline per node, and so do polls; none waits for an earlier one.
type schedule struct {
	e    *Engine
	wake chan struct{} // the loop is to look again
	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	timers  timerHeap
	running bool
	stopped bool
	sleeps  instant // until when the loop sleeps
	idle    bool    // the loop had nothing to wait for when it looked last
	batches int     // under way
}

// A timer is an entry of the schedule; its owner embeds it and is told when it is due. The zero value
// is not set.
type timer struct {
	owner any // *lease, *request or *cancellation
	at    instant
	slack time.Duration // how much earlier it may be
	index int           // in the heap + 1; 0: not set
}

const (
	never = instant(1<<63 - 1)
	// maxBatches bounds the pipelines under way; as none waits for another, a server that does not
	// answer would gather them.
	maxBatches = 32
	// maxRenewals bounds a pipeline. The server reads it in pieces of 16 KiB and serves others in
	// between, so that it may well be long.
	maxRenewals = 16384
)

// idleNap is how long the loop, with nothing to wait for, waits for something all the same before it
// sleeps until it is woken: locks that come and go at once would wake it each time.
const idleNap = 50 * time.Millisecond

func (s *schedule) init(e *Engine) {
	s.e, s.wake, s.quit, s.sleeps = e, make(chan struct{}, 1), make(chan struct{}), never
}

// set sets or moves a timer.
func (s *schedule) set(t *timer, at instant, slack time.Duration) {
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

// remove takes a timer off the schedule.
func (s *schedule) remove(t *timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.index != 0 {
		heap.Remove(&s.timers, t.index-1)
	}
}

// stop ends the loop and what it has started, whose commands the caller's end cuts short.
// isUndoing reports whether something is to be taken back from the server.
func (s *schedule) isUndoing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.timers, func(t *timer) bool {
		_, undoes := t.owner.(*cancellation)
		return undoes
	})
}

func (s *schedule) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	close(s.quit)
	s.wg.Wait()
}

// loop never waits for a timer whose time has come: two goroutines that do so at once in a bubble of
// testing/synctest crash the race detector (go.dev/issue/78156).
func (s *schedule) loop() {
	sleep := time.NewTimer(idleNap)
	defer sleep.Stop()
	for {
		due, next := s.due()
		if len(due) > 0 {
			s.run(due)
			continue // those may have set new ones
		}
		if next != never {
			sleep.Reset(next - s.e.now())
		}
		select {
		case <-s.quit:
			return
		case <-s.wake:
		case <-sleep.C:
		}
	}
}

// due takes off what is due, and says when the next one is.
func (s *schedule) due() (due []*timer, next instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.e.now()
	for len(s.timers) > 0 && s.timers[0].at-s.timers[0].slack <= now {
		due = append(due, heap.Pop(&s.timers).(*timer))
	}
	switch {
	case len(due) > 0:
		next = now
	case len(s.timers) > 0:
		next = s.timers[0].at
	case !s.idle:
		next = now + idleNap
	default:
		next = never
	}
	s.idle = len(s.timers) == 0
	s.sleeps = next
	return due, next
}

// run does what is due; commands go out in goroutines of their own.
func (s *schedule) run(due []*timer) {
	var renewals []*script.Call
	var polls []*request
	var lost []*grant
	for _, t := range due {
		switch owner := t.owner.(type) {
		case *lease:
			renew, ended := owner.due()
			lost = append(lost, ended...)
			if renew {
				renewals = append(renewals, owner.renewalDue())
			}
		case *request:
			if owner.due() {
				polls = append(polls, owner)
			}
		case *cancellation:
			owner.send()
		}
	}
	s.send(renewals)
	s.send(s.e.polls(polls))
	if len(lost) > 0 {
		s.tell(lost)
	}
}

// tell tells the holders of lost leases, without keeping up the loop.
func (s *schedule) tell(lost []*grant) {
	s.wg.Go(func() { tellLost(lost) })
}

// send runs calls in pipelines, each in a goroutine of its own.
func (s *schedule) send(calls []*script.Call) {
	for _, batch := range s.e.sender.ByNode(calls) {
		slices.SortFunc(batch, func(a, b *script.Call) int { return cmp.Compare(a.Timeout, b.Timeout) })
		for len(batch) > 0 {
			n := 1 // those in a hurry must not hurry the others
			for n < min(len(batch), maxRenewals) && batch[n].Timeout < 4*batch[0].Timeout {
				n++
			}
			s.sendBatch(batch[:n])
			batch = batch[n:]
		}
	}
}

func (s *schedule) sendBatch(batch []*script.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.batches >= maxBatches {
		return // the timers are set anew already
	}
	s.batches++
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.e.sender.Context(), batch[0].Timeout)
		s.e.sender.RunBatch(ctx, batch)
		cancel()
		s.mu.Lock()
		s.batches--
		s.mu.Unlock()
	})
}

// A timerHeap implements heap.Interface.
type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
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
