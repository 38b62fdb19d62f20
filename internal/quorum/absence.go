package quorum

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/transport"
)

// majorityMayAnswer reports whether enough nodes may answer: fewer than a quorum are known to be unreachable.
func (l *Locks) majorityMayAnswer() bool {
	return l.isQuorumWithout(func(n *node) bool { return n.unreachable })
}

// majorityIsFinal reports whether so many nodes have errors that waiting cannot change that the others are no quorum.
func (l *Locks) majorityIsFinal() bool {
	return !l.isQuorumWithout(func(n *node) bool { return n.final })
}

// isQuorumWithout reports whether enough nodes are left without some.
func (l *Locks) isQuorumWithout(some func(*node) bool) bool {
	return len(l.nodes)-count(l.nodes, some) >= l.cfg.Quorum
}

// count returns for how many elements f returns true.
func count[E any](list []E, f func(E) bool) (n int) {
	for _, e := range list {
		if f(e) {
			n++
		}
	}
	return n
}

// finalError returns an error that waiting cannot change; nil if there is none.
func (b *bid) finalError() error {
	var final error
	n := 0
	for _, v := range b.votes {
		if !v.is(failed) {
			continue
		}
		if errors.Is(v.err, core.ErrInvalidOption) {
			return unwrapAcquire(v.err)
		}
		if !transport.IsTemporary(v.err) {
			n++
			final = v.err
		}
	}
	if len(b.votes)-n >= b.e.l.cfg.Quorum {
		return nil
	}
	if err := unwrapAcquire(final); !errors.Is(err, core.ErrUnavailable) {
		return err
	}
	return b.unavailable()
}

func unwrapAcquire(err error) error {
	if failure, ok := errors.AsType[*core.AcquireError](err); ok {
		return failure.Err
	}
	return err
}

// whyUnavailable returns the error for a caller whose wait has ended because too few nodes answer. It returns nil if enough do,
// if another process holds the lock, or if the nodes had no more than patience to answer. If a node has answered that the lock is
// held, the others have until their timeout: the caller may know that it waits.
func (b *bid) whyUnavailable(patience time.Duration) error {
	switch there, _ := b.absence(patience); {
	case b.isRefused, b.in(queued, refused) > 0 && b.in(failed) == 0:
		return nil
	case there >= b.e.l.cfg.Quorum:
		return b.why
	case b.phase == asks && time.Since(b.begun) <= patience && b.e.delays == 0:
		return nil
	}
	return b.unavailableAfter(patience)
}

// tooManyFailed reports whether the bid could not have enough nodes even if no other process held any. Then it is unknown
// whether the lock is held.
func (b *bid) tooManyFailed() bool {
	return !b.e.l.isQuorumWithout(func(n *node) bool {
		v := b.votes[n.index]
		return v.is(failed) || v == nil && n.unreachable
	})
}

// unavailable returns the error that too few nodes answer, with the reasons.
func (b *bid) unavailable() error { return b.unavailableAfter(localq.SlowAnswer) }

func (b *bid) unavailableAfter(patience time.Duration) error {
	there, absent := b.absence(patience)
	n, k := len(b.e.l.nodes), b.e.l.cfg.Quorum
	if len(absent) == 0 {
		return fmt.Errorf("%w: %d of %d nodes have answered, %d required", core.ErrUnavailable, there, n, k)
	}
	return fmt.Errorf("%w: %d of %d nodes have answered, %d required: %w", core.ErrUnavailable, there, n, k, absent)
}

// absence returns how many nodes answer, and why the others do not. A node that was asked has patience to answer.
func (b *bid) absence(patience time.Duration) (there int, absent nodeErrors) {
	l, now := b.e.l, time.Now()
	for i, n := range l.nodes {
		v := b.votes[i]
		silent := v.is(asking) && now.Sub(b.begun) > patience
		if n.answers(now) && !silent && !v.is(failed) {
			there++
			continue
		}
		why := n.err
		if why == nil && v != nil {
			why = v.err
		}
		if why != nil {
			absent = append(absent, n.explain(why))
		}
	}
	return there, absent
}

// explain adds the node to err.
func (n *node) explain(err error) error {
	err = unwrapAcquire(err)
	if addr := n.engine.Addr(); addr != "" {
		return fmt.Errorf("node %d (%s): %w", n.index+1, addr, err)
	}
	return fmt.Errorf("node %d: %w", n.index+1, err)
}

// nodeErrors are the reasons why nodes do not answer, in the order of the nodes.
type nodeErrors []error

func (all nodeErrors) Error() string {
	texts := make([]string, len(all))
	for i, err := range all {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (all nodeErrors) Unwrap() []error { return all }

// Fault is for core.FaultOf: waiting helps if it helps at one of the nodes.
func (all nodeErrors) Fault() core.Fault {
	least := core.Lasting
	for _, err := range all {
		least = min(least, core.FaultOf(err))
	}
	return least
}
