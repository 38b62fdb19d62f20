package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A call is a call for a lock by one of two processes, with what its spans have to show.
type call struct {
	by int // 0 or 1: the process
	order

	links    []string // to the acquire spans of these calls
	most     int      // the maximum number of links; 0: all
	after    []string // calls whose holds ended before this one's began
	position int64    // in the queue; 0 for a call that does not wait
	waiters  int64    // of the process, at the release

	outcome string // of the wait; "" is acquired
	ending  string // of the hold; "" is released
	err     string // error.type, of the span that has failed
	fine    bool   // the failure does not set the status Error
}

// scene returns the calls in the order of their beginnings. The test makes a key of each word Key.
func scene() []call {
	calls := []call{
		{order: order{ID: "plain 1", Kind: "plain", Key: "plain"}},
		{order: order{ID: "plain 2", Kind: "plain", Key: "plain"}, by: 1,
			links: []string{"plain 1"}, after: []string{"plain 1"}, position: 1},

		{order: order{ID: "fair 1", Kind: "fair", Key: "fair", Name: "checkout"}, waiters: 1},
		{order: order{ID: "fair 2", Kind: "fair", Key: "fair", Name: "checkout"}, by: 1,
			links: []string{"fair 1"}, after: []string{"fair 1"}, position: 1},
		{order: order{ID: "fair 3", Kind: "fair", Key: "fair", Name: "fulfil"},
			links: []string{"fair 1"}, after: []string{"fair 1", "fair 2"}, position: 2},

		{order: order{ID: "read 1", Kind: "read", Key: "rw", Name: "browse"}, waiters: 1},
		{order: order{ID: "read 2", Kind: "read", Key: "rw", Name: "browse"}, by: 1},
		{order: order{ID: "read 3", Kind: "read", Key: "rw", Name: "browse", Lease: time.Minute}, by: 1},
		{order: order{ID: "write", Kind: "write", Key: "rw", Name: "restock"},
			links: []string{"read 1", "read 2", "read 3"}, after: []string{"read 1", "read 2", "read 3"}, position: 1},
		{order: order{ID: "read 4", Kind: "read", Key: "rw", Name: "browse"}, by: 1,
			links: []string{"write"}, after: []string{"write"}, position: 1},

		{order: order{ID: "busy", Kind: "plain", Key: "busy", Lease: 5 * time.Minute}}, // not renewed during the next calls
		{order: order{ID: "try", Kind: "plain", Key: "busy", Try: true}, by: 1,
			links: []string{"busy"}, outcome: "not_acquired", err: "lock_not_acquired", fine: true},
		{order: order{ID: "impatient", Kind: "fair", Key: "busy", Wait: 4 * time.Second}, by: 1,
			links: []string{"busy"}, position: 1, outcome: "timeout", err: "lock_timeout"},

		{order: order{ID: "occupied", Kind: "plain", Key: "occupied"}},
		{order: order{ID: "canceled", Kind: "write", Key: "occupied"}, by: 1,
			links: []string{"occupied"}, position: 1, outcome: "canceled", err: "lock_canceled"},

		{order: order{ID: "lost", Kind: "plain", Key: "lost", MaxHold: 500 * time.Millisecond}, by: 1,
			ending: "lost", err: "lock_lost"},
	}
	// Readers of one process share a hold if their leases are equal.
	writer := call{order: order{ID: "stocktaking", Kind: "write", Key: "crowd", Name: "stocktaking"}, most: 8, position: 1}
	for i := range 10 {
		reader := fmt.Sprint("reader ", i)
		calls = append(calls, call{by: i % 2, waiters: int64(1 - i%2), order: order{
			ID: reader, Kind: "read", Key: "crowd", Name: "browse", Lease: time.Duration(30+i) * time.Second,
		}})
		writer.links, writer.after = append(writer.links, reader), append(writer.after, reader)
	}
	return append(calls, writer)
}

// A stage is two processes that contend.
type stage struct {
	t        *testing.T
	ctx      context.Context
	marker   string // occurs in all keys, and nowhere else
	calls    []call
	children [2]*child
	traces   map[string]int    // the expected spans of each trace
	traceOf  map[string]string // of a call
}

// perform runs two processes that contend and export spans and metrics to these addresses. Each has its own connection to a
// real Redis.
func perform(t *testing.T, ctx context.Context, spans, metrics, redact string) *stage {
	s := &stage{
		t: t, ctx: ctx, marker: rand.Text(), calls: scene(),
		traces: make(map[string]int), traceOf: make(map[string]string),
	}
	server := redistest.Redis(t)
	for i := range s.children {
		s.children[i] = startChild(t, childSpec{
			Redis: server.Addr(), Spans: spans, Metrics: metrics, Service: fmt.Sprint("process ", i), Redact: redact,
		})
	}
	s.play()
	for _, c := range s.children {
		c.End()
	}
	return s
}

// play plays the scene, step by step.
func (s *stage) play() {
	s.begin("plain 1", "locked")
	s.begin("plain 2", "contended")
	s.unlock("plain 1")
	s.await("plain 2", "locked")
	s.unlock("plain 2")

	s.begin("fair 1", "locked")
	s.begin("fair 2", "contended")
	s.begin("fair 3", "contended")
	s.unlock("fair 1")
	s.await("fair 2", "locked")
	s.unlock("fair 2")
	s.await("fair 3", "locked")
	s.unlock("fair 3")

	readers := []string{"read 1", "read 2", "read 3"}
	for _, r := range readers {
		s.begin(r, "locked")
	}
	s.begin("write", "contended")
	for _, r := range readers {
		s.unlock(r)
	}
	s.await("write", "locked")
	s.begin("read 4", "contended")
	s.unlock("write")
	s.await("read 4", "locked")
	s.unlock("read 4")

	s.begin("busy", "locked")
	s.begin("try", "failed")
	s.begin("impatient", "failed")
	s.unlock("busy")

	s.begin("occupied", "locked")
	s.begin("canceled", "contended")
	s.order("cancel", "canceled")
	s.await("canceled", "failed")
	s.unlock("occupied")

	s.begin("lost", "lost")
	s.unlock("lost")

	crowd := s.call("stocktaking").links
	for _, r := range crowd {
		s.begin(r, "locked")
	}
	s.begin("stocktaking", "contended")
	for _, r := range crowd {
		s.unlock(r)
	}
	s.await("stocktaking", "locked")
	s.unlock("stocktaking")
}

func (s *stage) call(id string) call {
	i := slices.IndexFunc(s.calls, func(c call) bool { return c.ID == id })
	return s.calls[i]
}

func (s *stage) keyOf(c call) string { return lockmw.Key("item", c.Key+" "+s.marker) }

// begin begins a call and waits for a report of it.
func (s *stage) begin(id, event string) {
	s.t.Helper()
	s.order("lock", id)
	s.await(id, event)
}

func (s *stage) unlock(id string) {
	s.t.Helper()
	s.order("unlock", id)
	s.await(id, "unlocked")
}

func (s *stage) order(do, id string) {
	s.t.Helper()
	c := s.call(id)
	o := c.order
	o.Do, o.Key = do, s.keyOf(c)
	s.children[c.by].Order(o)
}

func (s *stage) await(id, event string) {
	s.t.Helper()
	r := s.children[s.call(id).by].await(s.ctx, id, event)
	s.traceOf[id] = r.Trace
	switch event {
	case "failed":
		s.traces[r.Trace] = 2 // the caller's span and the acquire span
	case "unlocked":
		s.traces[r.Trace] = 4 // also the hold and the work
	}
}
