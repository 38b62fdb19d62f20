package plain

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

var modelled = []env.Scenario{
	env.Case("random operations do what a simple model of the lock does", randomOperations, env.Excludes|env.Shares|env.Costly|env.Sample),
}

func randomOperations(e *env.Env) {
	e.Compare(func(t *rapid.T, clients []*env.Client) env.Model { return newModel(e, t, clients) })
}

const (
	modelFixed = 2 * time.Second // the fixed lease of some holds
	modelLease = time.Second     // of the others, renewed
)

// A model is what the lock should be: for each key one holder or none, and those who wait.
type model struct {
	e       *env.Env
	clients []*env.Client
	keys    []*modelKey
	closed  []*judge.Held // unlocked holds
}

type modelKey struct {
	key     string
	holder  *modelHolder // nil: free
	waiters []*env.Waiter
	then    map[*env.Waiter]*modelHolder // what they are when they have it
	token   int64
}

type modelHolder struct {
	key   *modelKey
	outer *modelHolder // in whose context it was taken
	fixed bool
	lost  bool
	first *judge.Held
	open  []modelHold
}

type modelHold struct {
	ctx    context.Context
	unlock func() error
	token  int64
}

func newModel(e *env.Env, t *rapid.T, clients []*env.Client) *model {
	m := &model{e: e.Round(t), clients: clients}
	for range 2 {
		m.keys = append(m.keys, &modelKey{key: e.Key("item"), then: make(map[*env.Waiter]*modelHolder)})
	}
	return m
}

// Actions implements env.Model.
func (m *model) Actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":        m.check,
		"try":     m.try,
		"wait":    m.wait,
		"reenter": m.reenter,
		"unlock":  m.unlock,
		"again":   m.unlockAgain,
		"cancel":  m.cancel,
	}
}

// End implements env.Model.
func (m *model) End() {
	for _, k := range m.keys {
		for _, w := range k.waiters {
			w.Cancel()
			<-w.Done
			if w.Err == nil {
				_ = w.Held.Unlock()
			}
		}
		if k.holder != nil {
			for _, h := range k.holder.open {
				_ = h.unlock()
			}
		}
	}
	for _, v := range m.e.Rec.Violations() {
		m.e.T.Error(v)
	}
}

func (m *model) anyKey(t *rapid.T) *modelKey { return env.Draw(t, "key", m.keys) }

func (m *model) anyClient(t *rapid.T) *env.Client { return env.Draw(t, "client", m.clients) }

// held draws one of the keys that are held.
func (m *model) held(t *rapid.T) *modelKey {
	var held []*modelKey
	for _, k := range m.keys {
		if k.holder != nil {
			held = append(held, k)
		}
	}
	if len(held) == 0 {
		t.Skip("no key is held")
	}
	return env.Draw(t, "held key", held)
}

func (m *model) lease(t *rapid.T) (fixed bool, opt lockmw.Option) {
	// Over several nodes calls may pause, and leases run out meanwhile.
	if m.e.Config.Bubble && m.e.Config.OverNodes == nil && rapid.Bool().Draw(t, "fixed") {
		return true, lockmw.WithFixedLease(modelFixed)
	}
	return false, lockmw.WithLease(m.e.Ample(modelLease))
}

// context draws where a call comes from: nowhere, or inside the hold of another key. Not inside one
// that was in turn taken inside k's hold, which would re-enter, or inside a lost one of k, which
// would be told so.
func (m *model) context(t *rapid.T, k *modelKey) (context.Context, *modelHolder) {
	for _, other := range m.keys {
		if other == k || other.holder == nil || other.holder.isInside(k) {
			continue
		}
		if rapid.Bool().Draw(t, "inside another hold") {
			ctx := other.holder.open[0].ctx
			return context.WithoutCancel(ctx), other.holder // that hold may end first
		}
	}
	return m.e.Ctx, nil
}

func (h *modelHolder) isInside(k *modelKey) bool {
	for ; h != nil; h = h.outer {
		if h.key == k && (h.lost || k.holder == h) {
			return true
		}
	}
	return false
}

func (m *model) try(t *rapid.T) {
	k, c := m.anyKey(t), m.anyClient(t)
	fixed, opt := m.lease(t)
	ctx, outer := m.context(t, k)
	if k.holder != nil {
		_, _, err := m.e.Rec.Lock(ctx, c, k.key, opt, lockmw.WithWait(0))
		m.e.Is("trying a held key", err, lockmw.ErrBusy)
		return
	}
	// A ticket that was cancelled just now may be passed over in this moment.
	ctx, held, err := m.e.Rec.Lock(ctx, c, k.key, opt, lockmw.WithWait(m.e.Ample(m.e.Soon)))
	if err != nil {
		t.Fatalf("trying a free key: %v", err)
	}
	m.granted(&modelHolder{key: k, outer: outer, fixed: fixed}, ctx, held)
}

func (m *model) granted(h *modelHolder, ctx context.Context, held *judge.Held) {
	k := h.key
	if held.Token() <= k.token {
		m.e.T.Errorf("token %d after %d", held.Token(), k.token)
	}
	k.token = held.Token()
	h.first, h.open = held, []modelHold{{ctx, held.Unlock, held.Token()}}
	k.holder = h
}

func (m *model) wait(t *rapid.T) {
	k, c := m.held(t), m.anyClient(t)
	if len(k.waiters) >= 4 {
		t.Skip("enough wait")
	}
	fixed, opt := m.lease(t)
	ctx, outer := m.context(t, k)
	w := m.e.WaitWith(ctx, c, k.key, opt)
	k.waiters = append(k.waiters, w)
	k.then[w] = &modelHolder{key: k, outer: outer, fixed: fixed}
}

func (m *model) cancel(t *rapid.T) {
	var waiting []*env.Waiter
	for _, k := range m.keys {
		waiting = append(waiting, k.waiters...)
	}
	if len(waiting) == 0 {
		t.Skip("nobody waits")
	}
	w := env.Draw(t, "waiter", waiting)
	w.Cancel()
	w.Fails(m.e.Soon, lockmw.ErrBusy, context.Canceled)
	for _, k := range m.keys {
		k.waiters = env.Without(k.waiters, w)
	}
}

func (m *model) reenter(t *rapid.T) {
	k := m.held(t)
	from := env.Draw(t, "hold", k.holder.open)
	var c *env.Client // re-entry is within one process
	for _, c = range m.clients {
		ctx, hold, err := c.Lock(context.WithoutCancel(from.ctx), k.key, lockmw.WithWait(0))
		if err != nil {
			continue
		}
		if hold.Token() != from.token {
			t.Errorf("the nested hold has token %d, the outer one %d", hold.Token(), from.token)
		}
		k.holder.open = append(k.holder.open, modelHold{ctx, hold.Unlock, hold.Token()})
		return
	}
	t.Error("no client re-enters")
}

func (m *model) unlock(t *rapid.T) {
	k := m.held(t)
	i := rapid.IntRange(0, len(k.holder.open)-1).Draw(t, "hold")
	h := k.holder.open[i]
	if err := h.unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	k.holder.open = slices.Delete(k.holder.open, i, i+1)
	if len(k.holder.open) > 0 {
		return
	}
	m.closed = append(m.closed, k.holder.first)
	m.free(k)
}

func (m *model) unlockAgain(t *rapid.T) {
	if len(m.closed) == 0 {
		t.Skip("nothing was unlocked")
	}
	held := env.Draw(t, "hold", m.closed)
	m.e.Is("Unlock once more", held.Unlock(), lockmw.ErrNotHeld)
}

// free is what follows the end of k's hold: one of those who wait gets it.
func (m *model) free(k *modelKey) {
	k.holder = nil
	if len(k.waiters) == 0 {
		return
	}
	w := env.First(m.e.Soon, k.waiters)
	for _, other := range k.waiters { // the lease of the first one may have run out meanwhile
		if other.Returned() && other.Err == nil && w.Err == nil && other.Held.Token() < w.Held.Token() {
			w = other
		}
	}
	ctx, held := w.Gets(0)
	k.waiters = env.Without(k.waiters, w)
	m.granted(k.then[w], ctx, held)
}

// PassTime implements env.Model: it lets all fixed leases run out, those of the waiters that follow too.
func (m *model) PassTime(t *rapid.T) {
	for _, k := range m.keys {
		for k.holder != nil && k.holder.fixed {
			for _, h := range k.holder.open {
				m.e.Ends(h.ctx)
				m.e.Is("the cause of its end", context.Cause(h.ctx), lockmw.ErrLost)
			}
			h := k.holder
			h.lost = true
			m.free(k)
			for _, h := range h.open {
				m.e.Is("Unlock of a lost hold", h.unlock(), lockmw.ErrLost)
			}
			m.closed = append(m.closed, h.first)
		}
	}
	synctest.Wait()
}

// check compares the lock with the model after each operation.
func (m *model) check(t *rapid.T) {
	for _, k := range m.keys {
		for _, w := range k.waiters {
			w.IsWaiting()
		}
		if k.holder == nil || k.holder.fixed {
			continue
		}
		for _, h := range k.holder.open {
			if err := h.ctx.Err(); err != nil {
				t.Errorf("a hold has ended: %v", context.Cause(h.ctx))
			}
		}
	}
}
