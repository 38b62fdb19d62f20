package fair

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
)

var positions = []env.Scenario{
	env.Case("a call learns its position and the queue length", positionAtTheStart, env.Fair|env.Shares|env.Sample),
	env.Case("a call learns its new position as it moves up, but not after its grant", positionMovesUp, env.Fair|env.Shares),
	env.Case("an Inspector shows the queue in order", inspectedQueue, env.Fair|env.OnServer|env.Shares|env.Sample),
}

// place returns the last reported position and queue length.
func (s *standing) place() string {
	notices := s.notified()
	if len(notices) == 0 {
		return "nothing"
	}
	last := notices[len(notices)-1]
	return fmt.Sprintf("%d of %d", last.Position, last.Waiters)
}

func positionAtTheStart(e *env.Env) {
	clients, q := e.Clients(3), newLine(e, e.Key("item"))
	ctx, held := e.Lock(clients[0], q.key)
	for i := range 9 {
		s := q.join(clients[i%len(clients)])
		if want := fmt.Sprintf("%d of %d", i+1, i+1); s.place() != want {
			e.T.Errorf("the call was notified of %s, want %s", s.place(), want)
		}
		if notices := s.notified(); len(notices[0].Holders) != 1 || notices[0].Holders[0].Token != held.Token() {
			e.T.Errorf("the call was notified of the holders %+v", notices[0].Holders)
		}
	}
	e.Unlock(ctx, held)
	q.run()
}

// places waits until every call in the line knows its position. The last call has just moved, so it also knows the queue
// length.
func (q *line) places() {
	q.e.T.Helper()
	q.e.Eventually(2*env.PollInterval+q.e.Soon, func() string {
		for i, s := range q.calls {
			notices := s.notified()
			last := notices[len(notices)-1]
			if last.Position != i+1 || i+1 == len(q.calls) && last.Waiters != i+1 {
				return fmt.Sprintf("%s was notified of %s; its position is %d of %d", s.name, s.place(), i+1, len(q.calls))
			}
		}
		return ""
	})
}

func positionMovesUp(e *env.Env) {
	clients, q := e.Clients(3), newLine(e, e.Key("item"))
	ctx, held := e.Lock(clients[0], q.key)
	for i := range 6 {
		q.join(clients[i%len(clients)])
	}
	all := slices.Clone(q.calls)
	e.Unlock(ctx, held)
	first := q.calls[0]
	first.has()
	q.leave(first)
	q.places()
	gone := q.calls[1]
	gone.Cancel()
	q.givesUp(gone, context.Canceled)
	q.places()
	for _, s := range all {
		notices := s.notified()
		for i := 1; i < len(notices); i++ {
			if notices[i].Position >= notices[i-1].Position {
				e.T.Errorf("%s was notified of position %d, then %d", s.name, notices[i-1].Position, notices[i].Position)
			}
		}
	}
	first.ends()
	q.run()
	e.Pass(env.PollInterval + env.PollInterval/4)
	for _, s := range all {
		if s.late {
			e.T.Errorf("%s was notified of a position after its grant", s.name)
		}
	}
}

func inspectedQueue(e *env.Env) {
	before := time.Now()
	a, b, q := e.Client(), e.Client(), newLine(e, e.Key("item"))
	ctx, held := e.Lock(a, q.key)
	for i := range 8 {
		q.join([]*env.Client{a, b}[i%2])
	}
	status := inspect(e, q.key)
	if status.Mode != e.Config.Mode || len(status.Holders) != 1 || status.Holders[0].Token != held.Token() {
		e.T.Errorf("the holder is shown as %q %+v", status.Mode, status.Holders)
	}
	if len(status.Waiters) != 8 {
		e.T.Fatalf("%d waiters are shown, want 8", len(status.Waiters))
	}
	for i, w := range status.Waiters {
		if w.Mode != e.Config.Mode || w.Process == "" || w.Since.Before(before.Add(-time.Minute)) {
			e.T.Errorf("a waiter is shown as %+v", w)
		}
		if i >= 2 && (w.Process != status.Waiters[i-2].Process || w.Process == status.Waiters[i-1].Process) {
			e.T.Errorf("waiter %d is shown in process %s", i, w.Process)
		}
		if i >= 1 && w.Since.Before(status.Waiters[i-1].Since) {
			e.T.Errorf("waiter %d is shown with an earlier start than the waiter in front", i)
		}
	}
	e.Unlock(ctx, held)
	q.run()
}
