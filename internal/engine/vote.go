package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
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

// noteClock notes what the answer that grants a vote says of the server's clock.
func (r *request) noteClock(sent clock.Instant, server int64) {
	if v := r.leader.Req.Vote; v != nil {
		v.Asked, v.Clock = sent.Time(), server
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

// Context ends when the engine is closed. What is sent with a context that derives from it costs less.
func (e *Engine) Context() context.Context { return e.sender.Context() }

// Watch has a restart of the server be noticed when it happens, not at the next command: the connection of the inbox breaks then,
// and a new one begins a recovery.
func (e *Engine) Watch() { e.inboxes.Use(e.inbox) }

// LeaseFor returns the lease of a hold that is to last that long by the clock of this process.
func (e *Engine) LeaseFor(hold time.Duration) time.Duration {
	if e.cfg.Margin < 0 {
		return hold + hold/99 + 3*time.Millisecond
	}
	return hold + min(e.cfg.Margin, hold/2)
}

// IsClosing reports whether the engine accepts nothing new.
func (e *Engine) IsClosing() bool { return e.closing.Load() }

// Config returns what the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Margin is by how much a lease ends earlier here than at the server.
func (e *Engine) Margin(lease time.Duration) time.Duration { return e.margin(lease) }

// Process is how an operator recognises this process.
func (e *Engine) Process() string { return e.process }

// IsCluster reports whether the server is a Cluster, which moves keys from node to node.
func (e *Engine) IsCluster() bool { return e.slots.cluster }

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
		return nil, localq.ErrSilent
	}
}

// ServerTime returns what the server's clock says.
func (e *Engine) ServerTime(ctx context.Context) (time.Time, error) {
	now, err := e.rdb.Time(ctx).Result()
	return now, transport.Failure(err)
}

// Addr returns the address of the server; "" if it is not known.
func (e *Engine) Addr() string {
	if c, ok := e.rdb.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
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
