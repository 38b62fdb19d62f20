package engine

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/transport"
)

// A schedule is one loop for everything that is due at some time: renewals, deadlines of leases, polls, tallies,
// releases and cancellations that are tried again, messages that should have come, waits that may be in a deadlock, and what follows an outage or a new subscription. Renewals
// that are due at about the same time go out in one pipeline per node, and so do polls. No pipeline waits for an earlier
// one (rule 13 of docs/protocol.md).
type schedule struct {
	e    *Engine
	wake chan struct{} // the loop is to look again
	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	timers  timerHeap
	running bool
	stopped bool
	sleeps  clock.Instant         // until when the loop sleeps
	idle    bool                  // the loop had nothing to wait for when it looked last
	batches map[*redis.Client]int // under way to a node; nil: to the servers, if they are no Cluster
}

// A timer is an entry of the schedule. Its owner has it as a field, and the loop calls the owner when it is
// due. The zero value is not set.
type timer struct {
	owner any // *lease, *run, *request, *release, *tally, *cancellation, *silentInbox, *recovery, *inboxes, *nested or *identity
	at    clock.Instant
	slack time.Duration // by how much it may be early
	index int           // index in the heap + 1; 0: not set
}

const (
	never = clock.Instant(math.MaxInt64)
	// maxBatches bounds the pipelines under way to a node. No pipeline waits for another, so they would pile up
	// if it did not answer.
	maxBatches = 32
	// maxPolling is how many are under way at most when the next polls are sent: renewals must not stay behind for them.
	maxPolling = maxBatches / 2
	// maxRenewals bounds the calls of a pipeline. It is large because the server reads a pipeline in pieces
	// of 16 KiB, and serves other clients in between.
	maxRenewals = 16384
)

// idleNap is how long an idle loop sleeps before it looks again. Only then does it sleep until it is woken.
// Without that, locks that come and go at once would wake it each time.
const idleNap = 50 * time.Millisecond

func (s *schedule) init(e *Engine) {
	s.e, s.wake, s.quit, s.sleeps = e, make(chan struct{}, 1), make(chan struct{}), never
	s.batches = make(map[*redis.Client]int)
}

// set sets or moves a timer.
func (s *schedule) set(t *timer, at clock.Instant, slack time.Duration) {
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

// stop ends the loop and waits for it and for its pipelines. The end of the sender has cut these short.
func (s *schedule) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	close(s.quit)
	s.wg.Wait()
}

// loop runs until stop. It never waits for a time.Timer that is due already: two goroutines that do so at
// once in a bubble of testing/synctest crash the race detector (go.dev/issue/78156).
func (s *schedule) loop() {
	sleep := time.NewTimer(idleNap)
	defer sleep.Stop()
	for {
		due, next := s.due()
		if len(due) > 0 {
			s.run(due)
			continue // it may have set new timers
		}
		if !s.sleep(sleep, next) {
			return
		}
	}
}

// sleep returns true when it is next, or the loop is woken, and false when it is stopped. Unless next is never, it looks at the
// clock now and then: the timer stops while the machine sleeps.
func (s *schedule) sleep(timer *time.Timer, next clock.Instant) bool {
	for now := clock.Now(); now < next; now = clock.Now() {
		if next != never {
			timer.Reset(min(next.Sub(now), clock.Interval))
		}
		select {
		case <-s.quit:
			return false
		case <-s.wake:
			return true
		case <-timer.C:
			clock.Look()
		}
	}
	return true
}

// due removes the timers that are due, and returns when the next one is.
func (s *schedule) due() (due []*timer, next clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	for len(s.timers) > 0 && s.timers[0].at.Add(-s.timers[0].slack) <= now {
		due = append(due, heap.Pop(&s.timers).(*timer))
	}
	switch {
	case len(due) > 0:
		next = now
	case len(s.timers) > 0:
		next = s.timers[0].at
	case !s.idle:
		next = now.Add(idleNap)
	default:
		next = never
	}
	s.idle = len(s.timers) == 0
	s.sleeps = next
	return due, next
}

// run does what is due. Commands are sent by other goroutines.
func (s *schedule) run(due []*timer) {
	var renewals []*transport.Call
	var polls []*request
	var tells []*transport.Call
	var lost []*hold
	for _, t := range due {
		switch owner := t.owner.(type) {
		case *lease:
			renew, ended, news := owner.due()
			lost = append(lost, ended...)
			for _, report := range news {
				s.wg.Go(report) // without holding up the loop
			}
			if renew {
				renewals = append(renewals, owner.renewalDue())
			}
		case *request:
			if owner.due() {
				polls = append(polls, owner)
			}
		case *tally:
			if k := owner.due(); k != nil {
				tells = append(tells, k)
			}
		case *run:
			owner.due()
		case *release:
			owner.send()
		case *cancellation:
			owner.due()
		case *silentInbox:
			owner.due()
		case *recovery:
			owner.due()
		case *inboxes:
			owner.due()
		case *nested:
			owner.due()
		case *identity:
			owner.due()
		}
	}
	s.send(renewals, maxBatches)
	s.send(append(s.e.polls(polls), tells...), maxPolling)
	if len(lost) > 0 {
		s.notifyLost(lost)
	}
}

// notifyLost notifies the callers of lost holds, without holding up the loop.
func (s *schedule) notifyLost(lost []*hold) {
	s.wg.Go(func() { notifyLost(lost) })
}

// send runs calls in pipelines, each in a goroutine of its own, as long as fewer than most are under way to their node.
func (s *schedule) send(calls []*transport.Call, most int) {
	for node, batch := range s.e.sender.ByNode(calls) {
		slices.SortFunc(batch, func(a, b *transport.Call) int { return cmp.Compare(a.Timeout, b.Timeout) })
		for len(batch) > 0 {
			n := 1 // a short timeout must not end calls with long ones
			for n < min(len(batch), maxRenewals) && batch[n].Timeout < 4*batch[0].Timeout {
				n++
			}
			s.sendBatch(node, batch[:n], most)
			batch = batch[n:]
		}
	}
}

func (s *schedule) sendBatch(node *redis.Client, batch []*transport.Call, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.batches[node] >= most {
		return // the next tries are scheduled already
	}
	s.batches[node]++
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.e.sender.Context(), batch[0].Timeout)
		stop := context.AfterFunc(ctx, s.e.sender.Late) // go-redis may wait for the answer for much longer
		s.e.sender.RunBatch(ctx, batch)
		stop()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.batches[node]--; s.batches[node] == 0 {
			delete(s.batches, node)
		}
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
