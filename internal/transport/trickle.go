package transport

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A Trickle sends calls that may wait, such as peeks. However many there are, they take about a fiftieth of a server's time: one
// pipeline is in flight to a node, and the pause after it is 49 times as long as its answer took. Safe for concurrent use.
type Trickle struct {
	s *Sender

	mu     sync.Mutex
	queues map[*redis.Client]*trickleQueue // by node; the key is nil without a Cluster
}

const (
	// maxTrickled is the largest number of calls in a pipeline.
	maxTrickled = 32
	// trickleShare is the ratio of the pause after an answer to the time that the answer took, and maxTricklePause limits the
	// pause.
	trickleShare    = 49
	maxTricklePause = time.Second
	// trickleLate is how long a pipeline without an answer delays the next one. There are never more than maxTrickles of them.
	trickleLate = 5 * time.Second
	maxTrickles = 4
)

// NewTrickle returns a Trickle that sends by s.
func NewTrickle(s *Sender) *Trickle {
	return &Trickle{s: s, queues: make(map[*redis.Client]*trickleQueue)}
}

// Add queues calls, in this order. It does not wait.
func (t *Trickle) Add(all []Due) {
	if len(all) == 0 {
		return
	}
	groups := t.s.groupDueByNode(all)
	t.mu.Lock()
	defer t.mu.Unlock()
	for node, due := range groups {
		q := t.queues[node]
		if q == nil {
			q = &trickleQueue{t: t, node: node}
			t.queues[node] = q
			t.s.spawn(q.run)
		}
		q.waiting = append(q.waiting, due...)
	}
}

// A trickleQueue has the calls that wait to be sent to a node. Its goroutine lasts while a call waits or is in flight.
type trickleQueue struct {
	t    *Trickle
	node *redis.Client

	// The mutex of the Trickle guards the fields below.
	waiting    []Due
	unanswered int // pipelines
}

// run sends the waiting calls, one pipeline after the other. Like a timers.Schedule, it never waits for a timer that is already due.
func (q *trickleQueue) run() {
	timer := time.NewTimer(trickleLate)
	defer timer.Stop()
	for calls := q.take(); calls != nil; calls = q.take() {
		began := clock.Now()
		answered := make(chan struct{})
		if len(calls) > 0 && !q.t.s.spawn(func() { q.fly(calls, answered) }) {
			return // the Sender has stopped
		}
		pause := maxTricklePause
		if len(calls) > 0 {
			timer.Reset(trickleLate)
			select {
			case <-q.t.s.ctx.Done():
				return
			case <-answered:
				pause = min(trickleShare*clock.Since(began), maxTricklePause)
			case <-timer.C:
				continue
			}
		}
		if pause <= 0 {
			continue // the answer took no time, in a bubble
		}
		timer.Reset(pause)
		select {
		case <-q.t.s.ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// take returns the calls to send next, or nil if the queue has ended. It returns an empty list while no call waits and an answer
// is missing. If too many answers are missing, it drops the waiting calls and returns an empty list.
func (q *trickleQueue) take() []*Call {
	q.t.mu.Lock()
	defer q.t.mu.Unlock()
	if q.unanswered >= maxTrickles {
		drop(q.waiting)
		q.waiting = nil
		return []*Call{}
	}
	var calls []*Call
	for len(q.waiting) > 0 && len(calls) < maxTrickled {
		if k := q.waiting[0].Call.Prepare(); k != nil {
			calls = append(calls, k)
		}
		q.waiting[0] = Due{}
		q.waiting = q.waiting[1:]
	}
	switch {
	case calls != nil:
		q.unanswered++
	case q.unanswered > 0:
		return []*Call{}
	default:
		delete(q.t.queues, q.node)
	}
	return calls
}

// fly runs a pipeline.
func (q *trickleQueue) fly(calls []*Call, answered chan<- struct{}) {
	q.t.s.runWithin(calls)
	q.t.mu.Lock()
	q.unanswered--
	q.t.mu.Unlock()
	close(answered)
}
