package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/transport"
)

// A round is what is due at about the same time: renewals go out in one pipeline per node, and so do polls. No pipeline waits
// for an earlier one (rule 13 of docs/protocol.md). Only the goroutine of the schedule adds to it.
type round struct {
	renewals []*transport.Call
	polls    []*request
	tells    []*transport.Call
	lost     []*hold

	mu       sync.Mutex
	underway map[*redis.Client]int // pipelines to a node; nil: to the servers, if they are no Cluster
}

const (
	// maxBatches bounds the pipelines under way to a node. No pipeline waits for another, so they would pile up
	// if it did not answer.
	maxBatches = 32
	// maxPolling is how many are under way at most when the next polls are sent: renewals must not stay behind for them.
	maxPolling = maxBatches / 2
	// maxRenewals bounds the calls of a pipeline. It is large because the server reads a pipeline in pieces
	// of 16 KiB, and serves other clients in between.
	maxRenewals = 16384
)

// endRound sends what the round has gathered, and tells those who have lost holds, without holding up the schedule.
func (e *Engine) endRound() {
	r := &e.round
	e.sendRound(r.renewals, maxBatches)
	e.sendRound(append(e.polls(r.polls), r.tells...), maxPolling)
	if len(r.lost) > 0 {
		e.tellLost(r.lost)
	}
	r.renewals, r.polls, r.tells, r.lost = nil, nil, nil, nil
}

// sendRound runs calls in pipelines, each in a goroutine of its own, as long as fewer than most are under way to their node.
func (e *Engine) sendRound(calls []*transport.Call, most int) {
	for node, batch := range e.sender.ByNode(calls) {
		slices.SortFunc(batch, func(a, b *transport.Call) int { return cmp.Compare(a.Timeout, b.Timeout) })
		for len(batch) > 0 {
			n := 1 // a short timeout must not end calls with long ones
			for n < min(len(batch), maxRenewals) && batch[n].Timeout < 4*batch[0].Timeout {
				n++
			}
			e.sendPipeline(node, batch[:n], most)
			batch = batch[n:]
		}
	}
}

func (e *Engine) sendPipeline(node *redis.Client, batch []*transport.Call, most int) {
	r := &e.round
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underway[node] >= most {
		return // the next tries are scheduled already
	}
	if r.underway == nil {
		r.underway = make(map[*redis.Client]int)
	}
	r.underway[node]++
	e.schedule.Go(func() {
		ctx, cancel := context.WithTimeout(e.sender.Context(), batch[0].Timeout)
		stop := context.AfterFunc(ctx, e.sender.Late) // go-redis may wait for the answer for much longer
		e.sender.RunBatch(ctx, batch)
		stop()
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.underway[node]--; r.underway[node] == 0 {
			delete(r.underway, node)
		}
	})
}
