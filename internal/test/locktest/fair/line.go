package fair

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// A line lists the waiting calls for a key in the order of their arrival. The queue of a fair lock must match it.
type line struct {
	e     *env.Env
	key   string
	calls []*standing
	named int
}

// A standing is a call in a line, from this process or another one.
type standing struct {
	*env.Waiter
	remote *env.Remote // for a call of another process, which has no Waiter
	name   string      // shown in the queue

	mu       sync.Mutex
	notices  []lockmw.Contention // received at the start and after each move
	acquired bool
	late     bool // a position was reported after the grant
}

func newLine(e *env.Env, key string) *line { return &line{e: e, key: key} }

// newName returns a unique name for a call.
func (q *line) newName() string {
	q.named++
	return fmt.Sprintf("%s%d", callName, q.named)
}

const callName = "call-"

// observer names the call and records its notifications.
func (s *standing) observer() lockmw.Option {
	return lockmw.WithObserver(&lockmw.Observer{
		TraceParent: func(context.Context) string { return s.name },
		Contended:   func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { s.notify(c) },
		Waiting:     func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { s.notify(c) },
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.acquired = true
			return ctx
		},
	})
}

func (s *standing) notify(c lockmw.Contention) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, c)
	s.late = s.late || s.acquired
}

// notified returns the notifications of the call.
func (s *standing) notified() []lockmw.Contention {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notices)
}

// join starts a call and returns once it is at the end of the line.
func (q *line) join(l lockmw.Locker, opts ...lockmw.Option) *standing {
	q.e.T.Helper()
	return q.joinAt(len(q.calls), l, opts...)
}

// joinAt is join for a call whose place is i.
func (q *line) joinAt(i int, l lockmw.Locker, opts ...lockmw.Option) *standing {
	q.e.T.Helper()
	s := &standing{name: q.newName()}
	s.Waiter = q.e.Wait(l, q.key, append(opts, s.observer())...)
	q.calls = slices.Insert(q.calls, i, s)
	q.stands()
	return s
}

// joinIn is join for a call in another process.
func (q *line) joinIn(p *env.Process, opts ...func(*order)) *standing {
	q.e.T.Helper()
	return q.joinInAt(len(q.calls), p, opts...)
}

func (q *line) joinInAt(i int, p *env.Process, opts ...func(*order)) *standing {
	q.e.T.Helper()
	s := &standing{name: q.newName()}
	o := order{Order: env.Order{Key: q.key}, Name: s.name}
	for _, opt := range opts {
		opt(&o)
	}
	s.remote = ask(p, o)
	s.remote.Waits()
	q.e.AwaitMessages(q.key)
	q.calls = slices.Insert(q.calls, i, s)
	q.stands()
	return s
}

// leave removes calls from the line.
func (q *line) leave(gone ...*standing) {
	q.calls = slices.DeleteFunc(q.calls, func(s *standing) bool { return slices.Contains(gone, s) })
}

// stands waits until the server's queue matches the line.
func (q *line) stands() {
	q.e.T.Helper()
	within := env.Patience
	if q.e.Config.Bubble { // waiting longer would let more happen
		within = q.e.Soon
	}
	q.standsWithin(within)
}

func (q *line) standsWithin(d time.Duration) {
	q.e.T.Helper()
	if q.e.Server == nil {
		return
	}
	want := q.names()
	missing := env.Await(q.e.Pace, d, func() string {
		if got := queue(q.e, q.key); !slices.Equal(got, want) {
			return fmt.Sprintf("the queue is %q, want %q", got, want)
		}
		return ""
	})
	if missing != "" {
		q.e.T.Fatalf("after %v: %s", d, missing)
	}
}

func (q *line) names() []string {
	names := make([]string, len(q.calls))
	for i, s := range q.calls {
		names[i] = s.name
	}
	return names
}

// queue returns the names of the calls in the server's queue, in order.
func queue(e *env.Env, key string) []string {
	e.T.Helper()
	p := e.Server.Admin.TxPipeline() // both at the same instant
	ids := p.ZRange(e.Ctx, e.Server.QueueKey(key), 0, -1)
	tickets := p.HGetAll(e.Ctx, e.Server.TicketsKey(key))
	if _, err := p.Exec(e.Ctx); err != nil {
		e.T.Fatalf("reading the queue: %v", err)
	}
	names := make([]string, len(ids.Val()))
	for i, id := range ids.Val() {
		names[i] = nameIn(tickets.Val()[id])
	}
	return names
}

// nameIn finds the call's name in the stored details of a ticket.
func nameIn(record string) string {
	for field := range strings.FieldsSeq(record) {
		if strings.HasPrefix(field, callName) {
			return field
		}
	}
	return "?"
}

// run lets all calls take the lock, which is being released, one by one.
func (q *line) run() {
	q.e.T.Helper()
	for len(q.calls) > 0 {
		q.next()
	}
}

// next lets the first call take and release the lock.
func (q *line) next() {
	q.e.T.Helper()
	q.calls[0].has()
	q.finishFirst()
}

// finishFirst releases the hold of the first call, after checking that the others still wait.
func (q *line) finishFirst() {
	q.e.T.Helper()
	first := q.calls[0]
	q.calls = q.calls[1:]
	for _, other := range q.calls {
		other.stillWaits()
	}
	first.ends()
}

// has checks that the call gets the lock immediately.
func (s *standing) has() {
	if s.remote != nil {
		s.remote.P.E.T.Helper()
		s.remote.Gets(s.remote.P.E.Soon)
		return
	}
	s.E.T.Helper()
	s.Gets(s.E.Soon)
}

// stillWaits checks that the call has not returned.
func (s *standing) stillWaits() {
	if s.remote != nil {
		s.remote.P.E.T.Helper()
		s.remote.NotReported(judge.Granted)
		return
	}
	s.E.T.Helper()
	s.IsWaiting()
}

// ends unlocks the call's hold.
func (s *standing) ends() {
	if s.remote != nil {
		s.remote.P.E.T.Helper()
		s.remote.Released()
		return
	}
	s.E.T.Helper()
	s.E.Unlock(s.Ctx, s.Held)
}

// givesUp checks that the call fails with ErrBusy and want, and removes it from the line.
func (q *line) givesUp(s *standing, want ...error) {
	q.e.T.Helper()
	s.Fails(env.Patience, append(want, lockmw.ErrBusy)...)
	q.leave(s)
	q.stands()
	q.e.Pass(time.Millisecond) // time does not pass by itself in a bubble
}
