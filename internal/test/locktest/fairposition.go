package locktest

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var fairPositions = []scenario{
	{"a call is told its position and the length of the queue", positionAtTheStart, fair | shares | sample},
	{"a call is told as it moves up, and not when it has the lock", positionMovesUp, fair | shares},
	{"the Inspector shows the queue in its order", inspectedQueue, fair | server | shares | sample},
}

// place is a position of so many.
func (s *standing) place() string {
	told := s.heard()
	if len(told) == 0 {
		return "nothing"
	}
	last := told[len(told)-1]
	return fmt.Sprintf("%d of %d", last.Position, last.Waiters)
}

func positionAtTheStart(e *env) {
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key)
	for i := range 9 {
		s := q.join(clients[i%len(clients)])
		if want := fmt.Sprintf("%d of %d", i+1, i+1); s.place() != want {
			e.t.Errorf("the call was told %s, want %s", s.place(), want)
		}
		if told := s.heard(); len(told[0].Holders) != 1 || told[0].Holders[0].Token != held.Token() {
			e.t.Errorf("the call was told of the holders %+v", told[0].Holders)
		}
	}
	e.unlock(ctx, held)
	q.run()
}

// places waits until every call in the line was told where it stands; the last one has just moved, and
// knows the length of the queue too.
func (q *line) places() {
	q.e.t.Helper()
	q.e.eventually(2*pollInterval+q.e.soon, func() string {
		for i, s := range q.calls {
			told := s.heard()
			last := told[len(told)-1]
			if last.Position != i+1 || i+1 == len(q.calls) && last.Waiters != i+1 {
				return fmt.Sprintf("%s was told %s, and stands %d of %d", s.name, s.place(), i+1, len(q.calls))
			}
		}
		return ""
	})
}

func positionMovesUp(e *env) {
	clients, q := e.clients(3), e.line(e.key("item"))
	ctx, held := e.lock(clients[0], q.key)
	for i := range 6 {
		q.join(clients[i%len(clients)])
	}
	all := slices.Clone(q.calls)
	e.unlock(ctx, held)
	first := q.calls[0]
	first.has()
	q.leave(first)
	q.places()
	gone := q.calls[1]
	gone.cancel()
	q.givesUp(gone, context.Canceled)
	q.places()
	for _, s := range all {
		told := s.heard()
		for i := 1; i < len(told); i++ {
			if told[i].Position >= told[i-1].Position {
				e.t.Errorf("%s was told %d, and then %d", s.name, told[i-1].Position, told[i].Position)
			}
		}
	}
	first.ends()
	q.run()
	e.pass(pollInterval + pollInterval/4)
	for _, s := range all {
		if s.late {
			e.t.Errorf("%s was told of its position when it had the lock", s.name)
		}
	}
}

func inspectedQueue(e *env) {
	before := time.Now()
	a, b, q := e.client(), e.client(), e.line(e.key("item"))
	ctx, held := e.lock(a, q.key)
	for i := range 8 {
		q.join([]*client{a, b}[i%2])
	}
	status := e.inspect(q.key)
	if status.Mode != e.cfg.Mode || len(status.Holders) != 1 || status.Holders[0].Token != held.Token() {
		e.t.Errorf("the holder is shown as %q %+v", status.Mode, status.Holders)
	}
	if len(status.Waiters) != 8 {
		e.t.Fatalf("%d waiters are shown, want 8", len(status.Waiters))
	}
	for i, w := range status.Waiters {
		if w.Mode != e.cfg.Mode || w.Process == "" || w.Since.Before(before.Add(-time.Minute)) {
			e.t.Errorf("a waiter is shown as %+v", w)
		}
		if i >= 2 && (w.Process != status.Waiters[i-2].Process || w.Process == status.Waiters[i-1].Process) {
			e.t.Errorf("waiter %d is shown in process %s", i, w.Process)
		}
		if i >= 1 && w.Since.Before(status.Waiters[i-1].Since) {
			e.t.Errorf("waiter %d is shown to have come before the one in front of it", i)
		}
	}
	e.unlock(ctx, held)
	q.run()
}
