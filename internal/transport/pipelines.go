package transport

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/timers"
)

// Pipelines sends calls that are due together in one pipeline per node, which does not wait for an earlier one (rule 13 of
// docs/protocol.md). Safe for concurrent use.
type Pipelines struct {
	s        *Sender
	schedule *timers.Schedule

	mu       sync.Mutex
	underway map[*redis.Client]int // pipelines in flight by node; the key is nil without a Cluster
}

// maxCalls bounds the calls of a pipeline. It is large because the server reads a pipeline in pieces of 16 KiB and serves other
// clients in between.
const maxCalls = 16384

// NewPipelines returns Pipelines that run in goroutines of the schedule.
func NewPipelines(s *Sender, schedule *timers.Schedule) *Pipelines {
	return &Pipelines{s: s, schedule: schedule, underway: make(map[*redis.Client]int)}
}

// Send runs calls in pipelines, each in its own goroutine. If a node already has limit pipelines in flight, its calls are dropped
// and get no answer: pipelines do not wait for one another, so they would pile up at a node that does not answer.
func (p *Pipelines) Send(calls []*Call, limit int) {
	for node, batch := range groupByNode(p.s, calls, (*Call).key) {
		for _, part := range groupByTimeout(batch, maxCalls) {
			p.start(node, part, limit)
		}
	}
}

func (p *Pipelines) start(node *redis.Client, batch []*Call, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.underway[node] >= limit {
		return
	}
	p.underway[node]++
	p.schedule.Go(func() {
		p.s.runWithin(batch)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.underway[node]--; p.underway[node] == 0 {
			delete(p.underway, node)
		}
	})
}

// groupByNode divides calls by the nodes of a Cluster, so that no node delays calls to others. The key is nil if there is no
// Cluster.
func groupByNode[T any](s *Sender, calls []T, key func(T) string) map[*redis.Client][]T {
	if s.cluster == nil {
		return map[*redis.Client][]T{nil: calls}
	}
	groups := make(map[*redis.Client][]T)
	for _, k := range calls {
		node := s.NodeFor(s.ctx, key(k))
		groups[node] = append(groups[node], k)
	}
	return groups
}

// groupByTimeout divides calls into batches of at most most calls, in which all timeouts are within a factor of four.
func groupByTimeout(calls []*Call, most int) (batches [][]*Call) {
	slices.SortStableFunc(calls, func(a, b *Call) int { return cmp.Compare(a.Timeout, b.Timeout) })
	for len(calls) > 0 {
		n := 1
		for n < min(len(calls), most) && calls[n].Timeout < 4*calls[0].Timeout {
			n++
		}
		batches = append(batches, calls[:n:n])
		calls = calls[n:]
	}
	return batches
}

// runWithin runs calls in a pipeline, within the first one's Timeout.
func (s *Sender) runWithin(batch []*Call) {
	ctx, cancel := context.WithTimeout(s.ctx, batch[0].Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, s.NoteLateAnswer) // go-redis may wait much longer for the answer
	defer stop()
	s.RunBatch(ctx, batch)
}
