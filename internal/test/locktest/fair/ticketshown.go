package fair

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var shownTickets = withTickets([]env.Scenario{
	env.Case("an Inspector shows kept places", ticketShown, env.Fair|env.OnServer|env.Shares|env.Sample),
})

// ticketShown inspects a caller's place while the caller waits, is away, is back, and holds the lock.
func ticketShown(e *env.Env) {
	inspector := e.Server.Inspector()
	a, q := e.Client(), newLine(e, e.Key("item"))
	shows := func(when string, want ...string) {
		e.T.Helper()
		kept, err := inspector.Kept(e.Ctx, q.key)
		if err != nil {
			e.T.Fatal(err)
		}
		var got []string
		for _, k := range kept {
			got = append(got, k.Name)
			if k.TTL <= 0 || k.TTL > longKept || k.Since.IsZero() {
				e.T.Errorf("%s, the kept place is %+v", when, k)
			}
		}
		if !slices.Equal(got, want) {
			e.T.Errorf("%s, the Inspector shows the kept places %q, want %q", when, got, want)
		}
	}
	ticket := lockmw.WithPlace("task 7", longKept)
	ctx, held := e.Lock(a, q.key)
	s := q.join(a, ticket)
	shows("while its caller waits")
	s.Cancel()
	q.givesUp(s, context.Canceled)
	e.Eventually(e.Soon, func() string { // the place is kept in the background
		for status, err := range inspector.All(e.Ctx) {
			if err == nil && status.Key == q.key && len(status.Kept) == 1 && status.Kept[0].Name == "task 7" {
				return ""
			}
		}
		return fmt.Sprintf("All does not show the place kept for %s", q.key)
	})
	shows("while its caller is away", "task 7")
	e.Unlock(ctx, held)
	shows("with the lock free", "task 7")
	ctx, held = e.Lock(a, q.key, ticket)
	shows("while its caller holds the lock")
	e.Unlock(ctx, held)
	shows("after the unlock")
}
