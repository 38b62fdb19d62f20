package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// The tokens of a counter only rise (rule 18 of docs/protocol.md), but a server may lose the counter, and the one that takes
// its place may have a clock that is behind. This process then knows greater tokens than it is granted: it raises the
// counter, and requests the lock once more.

// greatest is the greatest tokens that this process has seen, by the counter.
type greatest struct {
	single   atomic.Int64 // of the one counter of a server
	perSlot  bool
	counters sync.Map // of the counters of a Cluster: a *atomic.Int64 by the key
}

// of returns the greatest token of a counter.
func (g *greatest) of(keys *script.KeySet) *atomic.Int64 {
	if !g.perSlot {
		return &g.single
	}
	fence := keys.Fence()
	if v, ok := g.counters.Load(fence); ok {
		return v.(*atomic.Int64)
	}
	v, _ := g.counters.LoadOrStore(fence, new(atomic.Int64))
	return v.(*atomic.Int64)
}

// note notes tokens that were granted.
func (g *greatest) note(keys *script.KeySet, last int64) {
	of := g.of(keys)
	for seen := of.Load(); last > seen; seen = of.Load() {
		if of.CompareAndSwap(seen, last) {
			return
		}
	}
}

// isOld reports whether a grant has a token which is not greater than one that was seen before the request was sent.
// Readers share a token, which may be older.
func (r *request) isOld(g script.Grant) bool {
	return r.leader.req.Mode != core.Read && g.Token <= r.seen
}

// onOldToken goes on with a counter that was raised. What was granted is given up by the next request.
func (r *request) onOldToken() {
	c := r.c
	c.detach(r)
	c.raising = true
	c.raises++
	raise := script.Raise{Keys: &c.keys, Token: r.seen}
	c.e.sender.Start(raise.Call(c.e.sender.Context(), c.e.scripts, r.onRaised))
}

// maxRaises bounds how often the counter is raised for one grant.
const maxRaises = 3

// onRaised deals with the answer to raise.lua. If the counter was not raised, the next grant is old again.
func (r *request) onRaised(a *script.Reply) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	c.raising = false
	behind, err := a.Raised(r.seen)
	switch {
	case behind > 0:
		c.failWaiters(&core.AcquireError{Err: fmt.Errorf(
			"%w: its clock is %v behind a fencing token that was granted before, and it has lost count of its tokens",
			core.ErrUnavailable, behind.Round(time.Second))})
	case err != nil && !script.IsPassing(err):
		c.failWaiters(&core.AcquireError{Err: script.Failure(err)})
	case c.raises > maxRaises: // perhaps a proxy leads to another server each time
		c.failWaiters(&core.AcquireError{Err: fmt.Errorf("%w: its fencing tokens do not rise, though the counter was raised", core.ErrUnavailable)})
		c.raises = 0
	}
	c.sendRequest(&script.Predecessor{ID: r.id, Lease: r.lease()}) // or cancels that if nobody waits
}
