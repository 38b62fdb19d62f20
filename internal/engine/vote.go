package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A request with a Vote is for a lock that is one of several at independent nodes (rule 24 of docs/protocol.md). It is a
// cohort of its own. What it gets is a core.VoteHold.

var _ core.VoteHold = (*hold)(nil)

// votesWanted is tokensWanted for a vote. As long as no message could say that somebody else waits, they are not many.
func (c *cohort) votesWanted(v *core.Vote) (free, queued int) {
	tokens := max(v.Tokens, 1)
	if few := 1 + c.e.cfg.LocalPasses; tokens > few {
		c.e.inboxes.Use(c.slot.inbox)
		if !c.slot.inbox.IsLive() {
			tokens = few
		}
	}
	return tokens, tokens
}

// noteClock tells what the answer that grants a vote says of the server's clock.
func (r *request) noteClock(sent clock.Instant, server int64) {
	if v := r.leader.Req.Vote; v != nil && server != 0 {
		v.Clocked(sent.Time(), server)
	}
}

// Raise implements core.VoteHold.
func (h *hold) Raise(ctx context.Context, last, token int64) error {
	c := h.lease.c
	return c.e.raise(ctx, script.Raise{Keys: &c.keys, Token: last, Always: true, Hold: h.lease.id, Shown: token})
}

// LastToken implements core.VoteHold.
func (h *hold) LastToken() int64 { return h.lease.tokens.Last() }

// IsContended implements core.VoteHold.
func (h *hold) IsContended() bool {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return h.lease.contended
}

// BeOneOfSeveral says that the server is one of several that are asked at the same time.
func (e *Engine) BeOneOfSeveral() {
	e.sender.BeOneOfSeveral()
	e.inboxes.TestAfter(votesSilence)
}

// votesSilence is inbox.Silence for a server that is one of several: holds depend on it to learn of a restart.
const votesSilence = time.Second

// Trusted returns which server the engine trusts to have all locks in the slot of a key; "" if none, or it has no
// quarantine.
func (e *Engine) Trusted(key string) string {
	if e.quarantine == nil {
		return ""
	}
	keys := e.layout.KeySet(key)
	return e.quarantine.Trusted(keys.Holder())
}

// Counter asks for the last token that the server has given to any key. It fails as a request for key would, but for those
// who have the lock.
func (e *Engine) Counter(ctx context.Context, key string) (last int64, err error) {
	keys := e.layout.KeySet(key)
	p := script.Poll{Keys: &keys, Subscribed: e.slotOf(&keys).inbox.IsLive()}
	a, err := e.ask(ctx, p.Call)
	if err != nil {
		return 0, err
	}
	answer, err := script.PollAnswer(a, 0, e.layout.InboxPrefix())
	if answer.More {
		e.settle(keys, false)
	}
	return answer.Stamp, transport.Failure(err)
}

// Raise has the next token of key be greater than token. It fails with core.ErrUnavailable if that is too far ahead of the
// server's clock.
func (e *Engine) Raise(ctx context.Context, key string, token int64) error {
	keys := e.layout.KeySet(key)
	return e.raise(ctx, script.Raise{Keys: &keys, Token: token, Always: true})
}

func (e *Engine) raise(ctx context.Context, raise script.Raise) error {
	a, err := e.ask(ctx, raise.Call)
	if err != nil {
		return err
	}
	behind, err := script.RaiseAnswer(a, raise.Token)
	if behind > 0 {
		return fmt.Errorf("%w: its clock is %v behind a fencing token", core.ErrUnavailable, behind.Round(time.Second))
	}
	if err == nil {
		e.slotOf(raise.Keys).noteToken(raise.Token)
	}
	return transport.Failure(err)
}

// ask runs a script once.
func (e *Engine) ask(ctx context.Context, prepare prepareCall) (*transport.Reply, error) {
	answers := make(chan *transport.Reply, 1)
	e.sender.Start(prepare(ctx, e.scripts, func(r *transport.Reply) { answers <- r }))
	select {
	case r := <-answers:
		return r, nil
	case <-ctx.Done():
		return nil, core.ErrSilent
	}
}

// ServerTime returns what the server's clock says.
func (e *Engine) ServerTime(ctx context.Context) (time.Time, error) {
	now, err := e.rdb.Time(ctx).Result()
	return now, transport.Failure(err)
}

// Note notes at the server, by the name that Trusted has returned, that its counter was raised to those of other nodes.
func (e *Engine) Note(ctx context.Context, server string) error {
	return transport.Failure(e.rdb.Set(ctx, e.note(server), 1, noteTime).Err())
}

// IsNoted reports whether that was noted.
func (e *Engine) IsNoted(ctx context.Context, server string) (bool, error) {
	n, err := e.rdb.Exists(ctx, e.note(server)).Result()
	return n == 1, transport.Failure(err)
}

// noteTime is for how long it is noted.
const noteTime = 30 * 24 * time.Hour

func (e *Engine) note(server string) string { return e.cfg.Prefix + ":raised:" + server }

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
