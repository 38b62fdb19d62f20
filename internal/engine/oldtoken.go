package engine

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// The tokens of a counter only rise (rule 18 of docs/protocol.md), but a server may lose the counter, and the one that takes
// its place may have a clock that is behind. This process then knows greater tokens than it is granted: it raises the
// counter, and requests the lock once more.

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
