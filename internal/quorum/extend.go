package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
)

// An extension is one call of Extend. It asks the nodes of the lease, and the nodes that join the lease before enough have
// answered. The mutex of Locks guards it.
type extension struct {
	hold  *hold
	ctx   context.Context
	lease time.Duration

	asked  []*vote
	open   int         // answers to come
	done   []*vote     // nodes that were extended
	err    error       // why a node was not extended
	hasty  bool        // do not wait for nodes that are to join
	timer  *time.Timer // ends the call without the nodes that have not answered; nil: too few have
	result chan error  // has room for one result
	over   bool
}

// stragglersTime is how long the other nodes are waited for when enough nodes were extended.
const stragglersTime = 50 * time.Millisecond

// Extend implements core.Hold. If it returns nil, enough nodes were extended.
func (h *hold) Extend(ctx context.Context, lease time.Duration) error {
	s, l := h.lease, h.lease.e.l
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &extension{hold: h, ctx: ctx, lease: lease, result: make(chan error, 1)}
	l.mu.Lock()
	if err := h.Ended(); err != nil {
		l.mu.Unlock()
		return err
	}
	s.extensions = append(s.extensions, x)
	for _, v := range *s.members.Load() {
		x.ask(v)
	}
	x.step()
	l.mu.Unlock()
	select {
	case err := <-x.result:
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	x.hasty = true
	x.step()
	l.mu.Unlock()
	return <-x.result // the requests end with ctx
}

// ask extends the lease at one node.
func (x *extension) ask(v *vote) {
	if v.isLost() || slices.Contains(x.asked, v) {
		return
	}
	x.asked = append(x.asked, v)
	x.open++
	l := v.e.l
	l.spawn(func() {
		err := v.hold.Extend(x.ctx, x.lease)
		l.mu.Lock()
		defer l.mu.Unlock()
		x.open--
		if err == nil {
			x.done = append(x.done, v)
		} else {
			x.err = err
		}
		x.step()
	})
}

// step ends the call if its outcome is known.
func (x *extension) step() {
	s, k := x.hold.lease, x.hold.lease.e.l.cfg.Quorum
	switch {
	case x.over:
	case len(x.done) >= k && x.open > 0:
		if x.timer == nil {
			x.timer = time.AfterFunc(stragglersTime, x.onStragglers)
		}
	case len(x.done) >= k:
		x.end(nil)
	case errors.Is(x.err, core.ErrInvalidOption):
		x.end(x.err)
	case x.open == 0 && (x.hasty || !s.expects()):
		x.end(x.failure())
	}
}

// onStragglers ends a call that has enough nodes.
func (x *extension) onStragglers() {
	l := x.hold.lease.e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !x.over {
		x.end(nil)
	}
}

func (x *extension) end(err error) {
	s := x.hold.lease
	x.over = true
	if x.timer != nil {
		x.timer.Stop()
	}
	s.extensions = slices.DeleteFunc(s.extensions, func(other *extension) bool { return other == x })
	if err == nil {
		terms := *s.terms
		terms.Lease = x.lease
		s.terms = &terms
		s.fix(kthDeadline(x.done, s.e.l.cfg.Quorum))
	}
	x.result <- err
}

// failure returns the error that too few nodes were extended.
func (x *extension) failure() error {
	if ended := x.hold.Ended(); ended != nil {
		return ended
	}
	if l := x.hold.lease.e.l; x.err == nil || core.IsLoss(x.err) {
		return fmt.Errorf("%w: %d of %d nodes were extended, %d required", core.ErrUnavailable, len(x.done), len(l.nodes), l.cfg.Quorum)
	}
	return x.err
}

// stepExtensions continues the extensions in progress after a node has joined, or has failed to join.
func (l *lease) stepExtensions() {
	for _, x := range slices.Clone(l.extensions) {
		if !l.over {
			for _, v := range *l.members.Load() {
				x.ask(v)
			}
		}
		x.step()
	}
}

// expects reports whether a node may join the lease soon, without being asked again.
func (l *lease) expects() bool {
	return !l.over && slices.ContainsFunc(l.votes, func(v *vote) bool {
		return v != nil && !l.has(v) && (v.is(asking, queued) || v.is(granted) && v.raising)
	})
}
