package engine

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

// Each ticket is polled for once, together with others of its key, up to the limit of one execution.
func TestPollsOfManyTicketsAreOfABoundedNumber(t *testing.T) {
	s := redistest.Mini(t)
	wire := s.NewWire()
	e := newEngine(t, s.NewClient(t, wire.Use))
	e.probe.Disable()
	e.sender.RunBatch(t.Context(), prepared([]*request{queuedRequest(e, 0)})) // the server knows the script from here on
	for _, n := range []int{1, script.MaxPolled, script.MaxPolled + 1, 2 * script.MaxPolled, 3*script.MaxPolled + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var requests []*request
			for i := range n {
				requests = append(requests, queuedRequest(e, i))
			}
			wire.Record()
			e.sender.RunBatch(t.Context(), prepared(requests))
			polled := make(map[string]int)
			for _, c := range wire.Sent() {
				if !c.IsScript() {
					continue
				}
				for _, id := range polledIDs(t, c) {
					polled[id]++
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

// The race detector fails this test if a request is read without its lock.
func TestAPollMayBePreparedWhileItsGrantIsConfirmed(t *testing.T) {
	e := newEngine(t, redistest.Mini(t).NewClient(t))
	r := queuedRequest(e, 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		r.c.shard.mu.Lock()
		r.count(2)
		r.c.shard.mu.Unlock()
	})
	prepared([]*request{r})
	wg.Wait()
}

// prepared returns the polls for requests. No answer matters.
func prepared(requests []*request) (calls []*transport.Call) {
	for _, d := range polls(requests) {
		calls = append(calls, d.Call.Prepare())
	}
	for _, r := range requests {
		r.c.shard.mu.Lock()
		r.over = true
		r.c.shard.mu.Unlock()
	}
	return calls
}

// queuedRequest is one of two keys, whose poll waits for its turn.
func queuedRequest(e *Engine, i int) *request {
	w := &localq.Waiter{Req: &newRequester("item:1").Request}
	if i%3 == 0 {
		w.Req.Key = "item:2"
	}
	n := &entry{e: e, shard: e.shardOf(w.Req.Key), key: w.Req.Key, keys: e.layout.KeySet(w.Req.Key)}
	n.slot = e.slotOf(&n.keys)
	c := n.cohortOf(w.Req)
	return &request{c: c, id: e.newID(), leader: w, queued: true, asking: pollIt}
}

// polledIDs returns the ids in an execution of poll.lua.
func polledIDs(t *testing.T, c redistest.Command) (ids []string) {
	t.Helper()
	keys, err := strconv.Atoi(c[2])
	if err != nil {
		t.Fatalf("%q", c)
	}
	tickets := c[3+keys:]
	if len(tickets) > 3*script.MaxPolled || len(tickets)%3 != 0 {
		t.Errorf("%d arguments for tickets in one run", len(tickets))
	}
	for ticket := range slices.Chunk(tickets, 3) {
		ids = append(ids, ticket[0])
	}
	return ids
}
