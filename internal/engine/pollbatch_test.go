package engine

import (
	"fmt"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
)

// Each ticket is polled for once, with others of its key, as many as one run may ask for.
func TestPollsOfManyTicketsAreOfABoundedNumber(t *testing.T) {
	e := newEngine(t, redistest.Mini(t).NewClient(t))
	for _, n := range []int{1, maxPolled, maxPolled + 1, 2 * maxPolled, 3*maxPolled + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var requests []*request
			for i := range n {
				w := &waiter{req: &newAsker("item:1").Request}
				if i%3 == 0 {
					w.req.Key = "item:2"
				}
				c := &cohort{e: e, id: e.cohortOf(w.req), name: e.nameOf(w.req.Key)}
				requests = append(requests, &request{c: c, id: e.newID(), leader: w})
			}
			polled := make(map[any]int)
			for _, k := range e.polls(requests) {
				ids := k.args[9:] // after the command, five keys and the flag
				if len(ids) > 2*maxPolled {
					t.Errorf("%d tickets in one run", len(ids)/2)
				}
				for i := 0; i < len(ids); i += 2 {
					polled[ids[i]]++
				}
			}
			for _, r := range requests {
				if polled[r.id.String()] != 1 {
					t.Errorf("one is polled for %d times", polled[r.id.String()])
				}
			}
		})
	}
}
