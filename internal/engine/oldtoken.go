package engine

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// The tokens of a counter only rise (rule 18 of docs/protocol.md), but a server may lose the counter, and the one that takes
// its place may have a clock that is behind. This process then knows greater tokens than it is granted: it raises the
// counter, and requests the lock once more.

// noteToken notes the last token of a grant. Grants of other keys may come in another order than their tokens, but those of a
// key do not: none that comes later has an older token, however long its request has been waiting.
func (c *cohort) noteToken(token int64) {
	c.slot.noteToken(token)
	c.greatest = max(c.greatest, token)
}

// isOld reports whether a grant has a token which is not greater than one that was seen before the request was sent, or of
// the key since. Readers share a token, which may be older. Grants of permits may come in another order than their tokens.
func (r *request) isOld(g script.Grant) bool {
	if r.c.kind != permit {
		r.seen = max(r.seen, r.c.greatest)
	}
	return r.leader.Req.Mode != core.Read && g.Token <= r.seen
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
func (r *request) onRaised(a *transport.Reply) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	c.raising = false
	behind, err := script.RaiseAnswer(a, r.seen)
	switch {
	case behind > 0:
		c.failWaiters(&core.AcquireError{Err: fmt.Errorf(
			"%w: its clock is %v behind a fencing token that was granted before, and it has lost count of its tokens",
			core.ErrUnavailable, behind.Round(time.Second))})
	case err != nil && !transport.IsPassing(err):
		c.failWaiters(&core.AcquireError{Err: transport.Failure(err)})
	case c.raises > maxRaises: // perhaps a proxy leads to another server each time
		c.failWaiters(&core.AcquireError{Err: fmt.Errorf("%w: its fencing tokens do not rise, though the counter was raised", core.ErrUnavailable)})
		c.raises = 0
	}
	c.sendRequest(&script.Predecessor{ID: r.id, Lease: r.lease()}) // or cancels that if nobody waits
}
