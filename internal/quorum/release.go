package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A release gives a lease back to its nodes. If another process waits, the first node is freed last: the waiter is in its
// queue, and asks the other nodes immediately when it gets the first one.
type release struct {
	e        *entry
	lease    *lease
	patience time.Duration
	first    *vote // freed last; nil: none
	timer    *time.Timer

	begun     time.Time
	left      int         // answers to come
	late      int         // nodes that had not answered the acquire, and may not be free yet
	unsure    int         // such nodes that may still confirm the release
	grace     *time.Timer // for these nodes; nil: not yet
	ok        int
	gone      int // nodes at which the hold had ended
	err       error
	confirmed chan error // the outcome, for a caller that still waits for it
	done      bool       // the outcome was sent
}

// Release implements core.Hold.
func (h *hold) Release(patience time.Duration) (waiters int, err error) {
	e, l := h.lease.e, h.lease.e.l
	l.mu.Lock()
	waiters = e.waiters.Len
	if err = h.Ended(); err != nil {
		l.mu.Unlock()
		return waiters, err
	}
	if h.Expired() {
		err = h.expiryLoss()
		h.end(err)
		h.lease.lose(err)
		l.mu.Unlock()
		return waiters, err
	}
	rest := h.Linger()
	if rest <= 0 && h.passOn() {
		l.mu.Unlock()
		return waiters, nil
	}
	r := h.newRelease(rest, patience)
	l.mu.Unlock()
	return waiters, r.await()
}

// newRelease begins to release the lease of h.
func (h *hold) newRelease(rest, patience time.Duration) *release {
	l, e := h.lease, h.lease.e
	e.contended = l.isContended()
	h.end(nil)
	l.detach()
	r := &release{e: e, lease: l, patience: patience, begun: time.Now(), confirmed: make(chan error, 1)}
	e.release = r
	var first *node // freed last; nil: none
	if e.contended {
		first = l.firstNode()
	}
	for _, v := range l.votes {
		switch {
		case v == nil:
		case v.state != granted || v.isLost():
			v.dropFor(r)
		case rest > 0:
			v.hold.KeepTaken(rest)
			fallthrough
		default:
			if v.n == first {
				r.first = v
			} else {
				r.left++
				v.release(r)
			}
		}
	}
	r.timer = time.AfterFunc(e.l.cfg.NodeTimeout, r.onLimit)
	r.step()
	return r
}

// firstNode returns the node in whose queue others wait: the first one of the order that the lease has.
func (l *lease) firstNode() *node {
	order := l.e.l.order(l.e.key)
	for _, n := range order {
		if v := l.votes[n.index]; v.counts() && v.hold.IsContended() {
			return n
		}
	}
	return order[0]
}

// release frees the node, in the background.
func (v *vote) release(r *release) {
	v.state = dropped
	v.lose()
	v.e.l.spawn(func() {
		_, err := v.hold.Release(r.patience)
		v.e.l.mu.Lock()
		defer v.e.l.mu.Unlock()
		if errors.Is(err, core.ErrLost) || errors.Is(err, core.ErrNotHeld) {
			v.n.note(nil) // it has answered
		} else {
			v.n.note(err)
		}
		r.left--
		switch {
		case err == nil:
			r.ok++
		case errors.Is(err, core.ErrLost):
			r.gone++
			r.err = err
		default:
			r.err = err
		}
		r.step()
	})
}

// onLimit continues without the nodes that have not answered yet. They must not delay the first node or callers of this
// process.
func (r *release) onLimit() {
	l := r.e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	r.unsure = 0
	r.freeFirst()
	r.step()
	r.leave()
}

// leave lets callers of this process ask for the lock.
func (r *release) leave() {
	if r.e.release == r {
		r.e.release = nil
		r.e.start()
	}
}

func (r *release) freeFirst() {
	if v := r.first; v != nil {
		r.first = nil
		r.left++
		v.release(r)
	}
}

// step continues after an answer.
func (r *release) step() {
	k := r.e.l.cfg.Quorum
	if r.first != nil && r.left == 0 {
		r.freeFirst()
	}
	if !r.done && r.first == nil && (r.ok >= k || r.left+r.unsure == 0) {
		r.done = true
		r.confirmed <- r.outcome()
	}
	switch {
	case r.left > 0 || r.first != nil || r.e.release != r:
	case r.late > 0 && r.grace == nil:
		r.grace = time.AfterFunc(max(lateGrace, time.Since(r.begun)), r.giveUpLate)
	case r.late == 0:
		if r.grace != nil {
			r.grace.Stop()
		}
		if r.done {
			r.timer.Stop()
		}
		r.leave()
	}
}

// lateGrace is the least time for which this process does not ask for the key again because of nodes that had not answered the
// acquire before the release. They would refuse the next acquire.
const lateGrace = time.Millisecond

// onLate continues when such a node is free, or has failed.
func (r *release) onLate(isFree bool) {
	if isFree {
		r.ok++
	}
	r.late, r.unsure = max(0, r.late-1), max(0, r.unsure-1)
	r.step()
}

// giveUpLate continues without such nodes. They can still answer within the time limit of a node.
func (r *release) giveUpLate() {
	l := r.e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range r.lease.votes {
		if v != nil && v.late == r {
			v.n.late = true
		}
	}
	r.late = 0
	r.step()
}

// outcome returns the outcome of the release.
func (r *release) outcome() error {
	l := r.e.l
	switch {
	case r.ok >= l.cfg.Quorum:
		return nil
	case r.ok+r.gone >= l.cfg.Quorum || r.gone > len(l.nodes)-l.cfg.Quorum:
		return lossOf(r.err)
	case r.err == nil:
		return fmt.Errorf("%w: release confirmed by %d of %d nodes, %d required", core.ErrUnavailable, r.ok, len(l.nodes), l.cfg.Quorum)
	}
	return fmt.Errorf("%w: release confirmed by %d of %d nodes, %d required: %w", core.ErrUnavailable, r.ok, len(l.nodes), l.cfg.Quorum, r.err)
}

// await waits for the end of the release, but no longer than the caller's patience.
func (r *release) await() error {
	select {
	case err := <-r.confirmed:
		return err
	default:
	}
	l := r.e.l
	ctx := l.releases.Next(clock.Now())
	if r.patience != l.cfg.UnlockTimeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(background, r.patience)
		defer cancel()
	}
	select {
	case err := <-r.confirmed:
		return err
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return r.outcome()
	}
}
