package engine

import (
	"context"
	"crypto/rand"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A nested wait is a wait whose context has other holds. It may be in a deadlock, so detection runs while it lasts. Other waits
// cost nothing.
type nested struct {
	deadlock.NestedWait
	c     *cohort
	w     *localq.Waiter
	timer timers.Timer // the next deadlock check
	over  bool         // guarded by the shard's mutex
}

// beginNested registers the wait of w, if it is nested. Jobs and leaders are left out because they are expected to wait for long,
// and votes because most nodes do not show the holder of a lock over several nodes.
func (c *cohort) beginNested(w *localq.Waiter) *nested {
	chain, ok := w.Ctx.Value(core.ChainKey{}).(core.Chain)
	if !ok || w.Req.Wait == 0 || w.Req.Once || w.Req.Leads || w.Req.Vote != nil {
		return nil
	}
	e := c.e
	n := &nested{c: c, w: w}
	n.timer.SetOwner(n)
	n.NestedWait = deadlock.NestedWait{
		Waits: e.cfg.Waits, Request: w.Req, Began: w.Began.Time(), Until: w.Until(), Process: e.process, Site: site{e}, Call: n, Wake: n.wake,
	}
	if !n.Begin(chain) {
		return nil
	}
	first := w.Req.Detect
	if first == 0 {
		first = core.SelfWaitAfter // from then on, other processes may ask
	}
	n.wake(first)
	return n
}

// end ends the registration.
func (n *nested) end() {
	n.c.shard.mu.Lock()
	n.over = true
	n.c.e.schedule.Remove(&n.timer)
	n.c.shard.mu.Unlock()
	n.End()
}

// wake schedules the next deadlock check.
func (n *nested) wake(after time.Duration) {
	n.c.shard.mu.Lock()
	defer n.c.shard.mu.Unlock()
	if !n.over {
		n.c.e.schedule.SetAfter(&n.timer, after, 0)
	}
}

// Due checks the wait. Other processes may ask about the holds that it blocks, and they use the inboxes in the slots of those
// holds. They answer to the inbox in the slot of the wait's own key.
func (n *nested) Due() {
	n.c.e.inboxes.Use(n.c.slot.inbox)
	n.c.e.detector.PrefetchSecret()
	n.EachHold(func(h core.Hold) {
		if h, ok := h.(*hold); ok {
			h.lease.c.e.inboxes.Use(h.lease.c.slot.inbox)
		}
	})
	if n.Request.Detect == 0 {
		n.wake(deadlock.CheckInterval)
		return
	}
	n.c.e.detector.Check(&n.NestedWait)
}

// State implements deadlock.Call.
func (n *nested) State() (ticket string, waits bool) {
	c := n.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if n.over || n.w.IsOver() {
		return "", false
	}
	if r := c.request; r != nil && r.queued && !r.over {
		ticket = r.id.String()
	}
	return ticket, true
}

// State implements core.BlockingHold.
func (h *hold) State() core.HoldState {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	s := core.HoldState{Lease: h.lease.id.String(), Granted: h.Token(), Since: h.Since.Time(), Over: h.Over || h.Forgotten}
	if limit := clock.Instant(h.limit.Load()); limit != 0 {
		s.Until = limit.Time()
	}
	return s
}

// A site gives the deadlock detector access to an Engine.
type site struct{ e *Engine }

// Views implements deadlock.Site.
func (s site) Views(ctx context.Context, keys []string) map[string]*deadlock.View {
	type answer struct {
		key  string
		view *deadlock.View
	}
	e := s.e
	answers := make(chan answer, len(keys))
	for _, key := range keys {
		keySet := e.layout.KeySet(key)
		l := script.Look{Keys: &keySet}
		e.sender.Start(l.Call(ctx, e.scripts, func(r *transport.Reply) {
			v, err := script.LookAnswer(r)
			if err != nil {
				v = nil
			}
			answers <- answer{key, v}
		}))
	}
	views := make(map[string]*deadlock.View, len(keys))
	for range keys {
		select {
		case a := <-answers:
			views[a.key] = a.view
		case <-ctx.Done():
			return views
		}
	}
	return views
}

// Inbox implements deadlock.Site.
func (s site) Inbox(key string) string {
	if only := s.e.inbox; only != nil {
		return only.Name
	}
	keys := s.e.layout.KeySet(key)
	return s.e.layout.Inbox(s.e.process, &keys)
}

// Lasts implements deadlock.Site: a ticket lasts if any of the calls that share it does.
func (s site) Lasts(_, ticket string) bool {
	r, ok := s.e.find(ticket).(*request)
	if !ok {
		return false
	}
	r.c.shard.mu.Lock()
	defer r.c.shard.mu.Unlock()
	if r.over || !r.queued {
		return false
	}
	for w := range r.c.waiters.All() {
		if w.LastsFor(deadlock.ShortWait) {
			return true
		}
	}
	return false
}

// Context implements deadlock.Transport.
func (s site) Context() context.Context { return s.e.sender.Context() }

// Secret implements deadlock.Transport. The server replaces the secret after a month.
func (s site) Secret(ctx context.Context) string {
	const month = 30 * 24 * time.Hour
	key, e := s.e.cfg.Prefix+":deadlock", s.e
	if secret, err := e.rdb.Get(ctx, key).Result(); err == nil {
		return secret
	}
	if err := e.rdb.SetNX(ctx, key, rand.Text(), month).Err(); err != nil {
		return ""
	}
	secret, _ := e.rdb.Get(ctx, key).Result()
	return secret
}

// Send implements deadlock.Transport. An inbox in a slot of a Cluster ends with the slot's tag: see publish.lua.
func (s site) Send(ctx context.Context, inbox, text string) {
	if strings.HasSuffix(inbox, "}") {
		if err := s.e.rdb.SPublish(ctx, inbox, text).Err(); !transport.IsUnknownCommand(err) {
			return
		}
	}
	_ = s.e.rdb.Publish(ctx, inbox, text).Err() // a process that does not receive it does not answer
}

// engines has a weak pointer to each Engine of this process, by the name that Redis stores with its holds.
var engines sync.Map

func (e *Engine) register() {
	engines.Store(e.process, weak.Make(e))
	runtime.AddCleanup(e, func(process string) { engines.Delete(process) }, e.process)
}

// LocalBlocker implements localq.Line. The hold that the server has named may belong to another Client of this process.
func (c *cohort) LocalBlocker() *core.LocalHold {
	found := c.e.localHold(c.key)
	c.shard.mu.Lock()
	var seen []core.Holder
	if c.request != nil {
		seen = c.request.holders
	}
	c.shard.mu.Unlock()
	for _, h := range seen {
		if other, ok := engines.Load(h.Process); ok && found == nil {
			if e := other.(weak.Pointer[Engine]).Value(); e != nil {
				found = e.localHold(c.key)
			}
		}
	}
	return found
}
