package quorum

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// watchNodes has the locks end with their nodes' engines.
func (l *Locks) watchNodes() {
	open := len(l.nodes)
	for _, n := range l.nodes {
		l.stopWatching = append(l.stopWatching, context.AfterFunc(n.engine.Context(), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if open--; open == 0 {
				l.closedByNodes.Store(true)
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
		if h := s.e.holder.Load(); h != nil && h.req.Leads {
			leaders = append(leaders, h)
		}
	}
	l.drain()
	l.mu.Unlock()
	for _, h := range leaders {
		h.req.Events.ShuttingDown()
	}
	select {
	case <-l.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// holdEnded notes that a hold is over.
func (l *Locks) holdEnded() {
	l.holds--
	l.drain()
}

// drain closes l.drained if the last hold is over and no more will come.
func (l *Locks) drain() {
	if !l.closing || l.holds > 0 {
		return
	}
	select {
	case <-l.drained:
	default:
		close(l.drained)
	}
}

// Close ends waits and holds, releases the locks, and returns when no goroutine is left, and the nodes have confirmed what is
// released or were given time for that. The engines stay open.
func (l *Locks) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.wg.Wait()
		return nil
	}
	l.closing, l.closed = true, true
	l.failCalls()
	var tells []func()
	for s := range l.leases {
		if tell := s.lose(fmt.Errorf("%w with the lock held", core.ErrClosed)); tell != nil {
			tells = append(tells, tell)
		}
	}
	l.mu.Unlock()
	for _, stop := range l.stopWatching {
		stop()
	}
	for _, tell := range tells {
		tell()
	}
	l.cancel()
	l.wg.Wait()
	each(l.nodes, func(n *node) { n.engine.AwaitEndings() })
	return nil
}
