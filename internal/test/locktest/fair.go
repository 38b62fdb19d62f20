package locktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

// What every Locker passes that is first come, first served.
var firstCome = slices.Concat(
	fairOrders, fairKinds, fairCost, fairLeaving, fairClocks, fairDriven, fairPositions,
	fairTickets, fairTicketEnds, fairTicketLeaving, fairTicketLate, fairTicketInput, fairModelled,
)

// A line is the calls that wait for a key in the order in which they came: what the queue of a fair
// lock has to be.
type line struct {
	e     *env
	key   string
	calls []*standing
	named int
}

// A standing is a call in a line, of this process or another.
type standing struct {
	*waiter
	remote *remote // of another process; there is no waiter then
	name   string  // by which the queue shows it

	mu       sync.Mutex
	told     []lockmw.Contention // at the start, and each time that it has moved up
	acquired bool
	late     bool // it was told of its place when it had the lock
}

func (e *env) line(key string) *line { return &line{e: e, key: key} }

// newName returns a name that no other call in the line has.
func (q *line) newName() string {
	q.named++
	return fmt.Sprintf("%s%d", callName, q.named)
}

const callName = "call-"

// observer names the call, and keeps what it is told.
func (s *standing) observer() lockmw.Option {
	return lockmw.WithObserver(&lockmw.Observer{
		TraceParent: func(context.Context) string { return s.name },
		Contended:   func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { s.hears(c) },
		Waiting:     func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { s.hears(c) },
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.acquired = true
			return ctx
		},
	})
}

func (s *standing) hears(c lockmw.Contention) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, c)
	s.late = s.late || s.acquired
}

// heard returns what the call was told.
func (s *standing) heard() []lockmw.Contention {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// join has a call wait at the end of the line, and returns when it stands there.
func (q *line) join(l lockmw.Locker, opts ...lockmw.Option) *standing {
	q.e.t.Helper()
	return q.joinAt(len(q.calls), l, opts...)
}

// joinAt is join of a call that belongs before those that came later.
func (q *line) joinAt(i int, l lockmw.Locker, opts ...lockmw.Option) *standing {
	q.e.t.Helper()
	s := &standing{name: q.newName()}
	s.waiter = q.e.wait(l, q.key, append(opts, s.observer())...)
	q.calls = slices.Insert(q.calls, i, s)
	q.stands()
	return s
}

// joinIn is join of a call in another process.
func (q *line) joinIn(p *process, opts ...func(*fairOrder)) *standing {
	q.e.t.Helper()
	return q.joinInAt(len(q.calls), p, opts...)
}

func (q *line) joinInAt(i int, p *process, opts ...func(*fairOrder)) *standing {
	q.e.t.Helper()
	s := &standing{name: q.newName()}
	o := fairOrder{order: order{Key: q.key}, Name: s.name}
	for _, opt := range opts {
		opt(&o)
	}
	s.remote = p.ask(o)
	s.remote.waits()
	q.calls = slices.Insert(q.calls, i, s)
	q.stands()
	return s
}

// leave takes a call off the line.
func (q *line) leave(gone ...*standing) {
	q.calls = slices.DeleteFunc(q.calls, func(s *standing) bool { return slices.Contains(gone, s) })
}

// stands checks that the server's queue is the line, or is about to be.
func (q *line) stands() {
	q.e.t.Helper()
	within := patience
	if q.e.cfg.Bubble { // in which more would happen meanwhile
		within = q.e.soon
	}
	q.standsWithin(within)
}

func (q *line) standsWithin(d time.Duration) {
	q.e.t.Helper()
	if q.e.server == nil {
		return
	}
	want := q.names()
	missing := q.e.pace.await(d, func() string {
		if got := q.e.queue(q.key); !slices.Equal(got, want) {
			return fmt.Sprintf("the queue is %q, and should be %q", got, want)
		}
		return ""
	})
	if missing != "" {
		q.e.t.Fatalf("after %v: %s", d, missing)
	}
}

func (q *line) names() []string {
	names := make([]string, len(q.calls))
	for i, s := range q.calls {
		names[i] = s.name
	}
	return names
}

// queue returns the names of the calls in the server's queue, in its order.
func (e *env) queue(key string) []string {
	e.t.Helper()
	p := e.admin.TxPipeline() // both in the same moment
	ids := p.ZRange(e.ctx, e.redisKey(key)+":queue", 0, -1)
	tickets := p.HGetAll(e.ctx, e.redisKey(key)+":tickets")
	if _, err := p.Exec(e.ctx); err != nil {
		e.t.Fatalf("reading the queue: %v", err)
	}
	names := make([]string, len(ids.Val()))
	for i, id := range ids.Val() {
		names[i] = nameIn(tickets.Val()[id])
	}
	return names
}

// nameIn finds the name in what the server has of a ticket.
func nameIn(record string) string {
	for field := range strings.FieldsSeq(record) {
		if strings.HasPrefix(field, callName) {
			return field
		}
	}
	return "?"
}

// run lets the calls have the lock, which is being unlocked, one after the other.
func (q *line) run() {
	q.e.t.Helper()
	for len(q.calls) > 0 {
		q.next()
	}
}

// next is run of the first call.
func (q *line) next() {
	q.e.t.Helper()
	first := q.calls[0]
	first.has()
	q.calls = q.calls[1:]
	for _, other := range q.calls {
		other.stillWaits()
	}
	first.ends()
}

// has checks that the call gets the lock at once.
func (s *standing) has() {
	if s.remote != nil {
		s.remote.p.e.t.Helper()
		s.remote.gets(s.remote.p.e.soon)
		return
	}
	s.e.t.Helper()
	s.gets(s.e.soon)
}

// stillWaits checks that the call has not returned.
func (s *standing) stillWaits() {
	if s.remote != nil {
		s.remote.p.e.t.Helper()
		s.remote.hasNot(granted)
		return
	}
	s.e.t.Helper()
	s.isWaiting()
}

// ends unlocks what the call has got.
func (s *standing) ends() {
	if s.remote != nil {
		s.remote.p.e.t.Helper()
		s.remote.released()
		return
	}
	s.e.t.Helper()
	s.e.unlock(s.ctx, s.held)
}

// givesUp checks that the call ends without the lock, and takes it off the line.
func (q *line) givesUp(s *standing, want ...error) {
	q.e.t.Helper()
	s.fails(patience, append(want, lockmw.ErrBusy)...)
	q.leave(s)
	q.stands()
	q.e.pass(time.Millisecond) // in a bubble none would
}
