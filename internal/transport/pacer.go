package transport

import (
	"container/heap"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A Pacer sends many calls with deadlines, such as renewals, and delays the commands of other clients only a little. It sends the
// earliest deadline first, in small pipelines with pauses. The pauses make no call late: the closer the deadlines, the more calls
// are sent in a turn. Safe for concurrent use.
type Pacer struct {
	s *Sender

	mu     sync.Mutex
	queues map[*redis.Client]*paceQueue // by node; the key is nil without a Cluster
}

// A Paced prepares its call when its turn comes.
type Paced interface {
	// Prepare returns the call to send now, or nil if it is no longer needed.
	Prepare() *Call
	// Drop is called instead if the node does not answer.
	Drop()
}

// A Due is a call to be sent by a deadline.
type Due struct {
	Key      string // a Redis key at the node
	Deadline clock.Instant
	Call     Paced
}

const (
	// paceTurn separates two turns, and paceCalls is the number of calls in a turn if none is urgent.
	paceTurn  = 10 * time.Millisecond
	paceCalls = 256
	// maxPaced bounds the calls of a pipeline. A server answers other clients between the pieces of a pipeline, but hardly while
	// several large ones arrive.
	maxPaced = 512
	// maxPaceFlights bounds the pipelines in flight to a node. A pipeline without an answer stops counting after a 24th of the
	// lease, so that it does not delay others. There are never more than maxUnanswered: at that number, waiting calls are
	// dropped.
	maxPaceFlights = 4
	maxUnanswered  = 32
)

// NewPacer returns a Pacer that sends by s.
func NewPacer(s *Sender) *Pacer { return &Pacer{s: s, queues: make(map[*redis.Client]*paceQueue)} }

// Add queues calls. It does not wait.
func (p *Pacer) Add(all []Due) {
	if len(all) == 0 {
		return
	}
	groups := p.s.groupDueByNode(all)
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, due := range groups {
		q := p.queues[node]
		if q == nil {
			q = &paceQueue{p: p, node: node, wake: make(chan struct{}, 1)}
			p.queues[node] = q
			p.s.spawn(q.run)
		}
		for _, d := range due {
			heap.Push(&q.waiting, d)
		}
		q.poke()
	}
}

func (s *Sender) groupDueByNode(all []Due) map[*redis.Client][]Due {
	return groupByNode(s, all, func(d Due) string { return d.Key })
}

// drop drops calls that are not sent.
func drop(all []Due) {
	for _, d := range all {
		d.Call.Drop()
	}
}

// A paceQueue has the calls that wait to be sent to a node. Its goroutine lasts while a call waits or is in flight.
type paceQueue struct {
	p    *Pacer
	node *redis.Client
	wake chan struct{} // receives a value when a new call waits or a pipeline stops counting

	// The mutex of the Pacer guards the fields below.
	waiting    dueHeap
	begun      clock.Instant // when the turn began
	sent       int           // calls sent in this turn
	counted    int           // pipelines in flight that count
	unanswered int           // all pipelines in flight
}

// run sends the waiting calls, one turn after the other.
func (q *paceQueue) run() {
	timer := time.NewTimer(paceTurn)
	defer timer.Stop()
	for {
		due, rest, done := q.take(clock.Now())
		if done {
			return
		}
		q.send(due)
		var turn <-chan time.Time
		if rest > 0 {
			timer.Reset(rest)
			turn = timer.C
		}
		select {
		case <-q.p.s.ctx.Done():
			return
		case <-turn:
		case <-q.wake:
		}
	}
}

// take returns the calls to send now, and the rest of the turn if another turn follows. It reports whether the queue has ended.
func (q *paceQueue) take(now clock.Instant) (due []Due, rest time.Duration, done bool) {
	q.p.mu.Lock()
	defer q.p.mu.Unlock()
	if now.Sub(q.begun) >= paceTurn {
		q.begun, q.sent = now, 0
		if len(q.waiting) == 0 && q.unanswered == 0 {
			delete(q.p.queues, q.node)
			return nil, 0, true
		}
	}
	if q.unanswered >= maxUnanswered {
		drop(q.waiting)
		q.waiting = nil
	}
	room := max(min(maxPaceFlights-q.counted, maxUnanswered-q.unanswered), 0)
	n := max(min(q.mostInTurn(now)-q.sent, maxPaced*room, len(q.waiting)), 0)
	for range n {
		due = append(due, heap.Pop(&q.waiting).(Due))
	}
	q.sent += n
	if len(q.waiting) > 0 && room == 0 || q.unanswered > 0 && len(q.waiting) == 0 && n == 0 {
		return due, 0, false // wait for a pipeline
	}
	return due, max(q.begun.Add(paceTurn).Sub(now), 1), false
}

// mostInTurn returns how many calls this turn may have. All waiting calls are to be sent in a quarter of the time until the first
// deadline.
func (q *paceQueue) mostInTurn(now clock.Instant) int {
	if len(q.waiting) == 0 {
		return 0
	}
	turns := max(int(q.waiting[0].Deadline.Sub(now)/4/paceTurn), 1)
	return max(paceCalls, (q.sent+len(q.waiting)+turns-1)/turns)
}

// send sends the calls in pipelines. A short timeout does not end calls with long ones.
func (q *paceQueue) send(due []Due) {
	calls := make([]*Call, 0, len(due))
	for _, d := range due {
		if k := d.Call.Prepare(); k != nil {
			calls = append(calls, k)
		}
	}
	for _, batch := range groupByTimeout(calls, maxPaced) {
		q.p.mu.Lock()
		q.counted++
		q.unanswered++
		q.p.mu.Unlock()
		if !q.p.s.spawn(func() { q.fly(batch) }) {
			return // the Sender has stopped
		}
	}
}

// fly runs a pipeline, which counts until it is answered or its answer is late.
func (q *paceQueue) fly(batch []*Call) {
	uncount := sync.OnceFunc(func() { q.note(&q.counted) })
	late := time.AfterFunc(batch[0].Timeout/8, uncount) // a timeout is usually a third of the lease
	q.p.s.runWithin(batch)
	late.Stop()
	uncount()
	q.note(&q.unanswered)
}

// note takes one pipeline off a count.
func (q *paceQueue) note(count *int) {
	q.p.mu.Lock()
	*count--
	q.p.mu.Unlock()
	q.poke()
}

// poke wakes the goroutine of the queue.
func (q *paceQueue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// A dueHeap implements heap.Interface, with the earliest deadline first.
type dueHeap []Due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].Deadline < h[j].Deadline }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(Due)) }

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = Due{}
	*h = (*h)[:last]
	return d
}
