package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// watchNodes closes the locks when the engines of all nodes are closed.
func (l *Locks) watchNodes() {
	open := len(l.nodes)
	for _, n := range l.nodes {
		l.stopWatching = append(l.stopWatching, context.AfterFunc(n.engine.Context(), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if open--; open == 0 {
				l.closing = true
				l.failCalls()
				l.cancel()
			}
		}))
	}
}

// failCalls ends all waits.
func (l *Locks) failCalls() {
	for _, e := range l.entries {
		e.failAll(&core.AcquireError{Err: core.ErrClosed}, nil)
		e.abandon()
	}
}

// Shutdown refuses new calls, ends waits, and returns when no hold is left or ctx ends.
func (l *Locks) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.failCalls()
	var leaders []*hold
	for s := range l.leases {
		if h := s.e.holder.Load(); h != nil && h.Req.Leads {
			leaders = append(leaders, h)
		}
	}
	l.mu.Unlock()
	for _, h := range leaders {
		h.Req.Events.ShuttingDown()
	}
	return l.holds.AwaitEnd(ctx)
}

// Close ends waits and holds and releases the locks. It returns when no goroutine is left, and the nodes have confirmed all
// releases or confirm no more. Its error contains the number of locks that are left. The engines stay open.
func (l *Locks) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	l.closing, l.closed = true, true
	l.failCalls()
	var callbacks []func()
	for s := range l.leases {
		if notify := s.lose(fmt.Errorf("%w with the lock held", core.ErrClosed)); notify != nil {
			callbacks = append(callbacks, notify)
		}
	}
	l.mu.Unlock()
	for _, stop := range l.stopWatching {
		stop()
	}
	for _, notify := range callbacks {
		notify()
	}
	l.cancel()
	l.wg.Wait()
	return l.awaitEndings().Report(l.nodes[0].engine.Config().Logger)
}

// awaitEndings waits until the nodes have confirmed all releases, or confirm no more. A lock is free when a quorum has
// confirmed.
func (l *Locks) awaitEndings() transport.Unreleased {
	var mu sync.Mutex
	var all []transport.Unreleased
	each(l.nodes, func(n *node) {
		left := n.engine.AwaitEndings()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, left)
	})
	slices.SortFunc(all, func(a, b transport.Unreleased) int { return a.Holds - b.Holds })
	return all[l.cfg.Quorum-1] // assumes that a node with more locks left has also left the locks of a node with fewer
}
