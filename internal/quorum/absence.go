package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// majorityMayAnswer reports whether it is not known that too few nodes answer.
func (l *Locks) majorityMayAnswer() bool {
	present := 0
	for _, n := range l.nodes {
		if !n.away {
			present++
		}
	}
	return present >= l.cfg.Quorum
}

// finalError returns the error that no wait will help against; nil if there is none.
func (a *attempt) finalError() error {
	var final error
	n := 0
	for _, b := range a.ballots {
		if b == nil || b.state != failed {
			continue
		}
		if errors.Is(b.err, core.ErrInvalidOption) {
			return unwrapAcquire(b.err)
		}
		if b.n.final {
			n++
			final = b.err
		}
	}
	if len(a.ballots)-n >= a.e.l.cfg.Quorum {
		return nil
	}
	if err := unwrapAcquire(final); !errors.Is(err, core.ErrUnavailable) {
		return err
	}
	return a.unavailable()
}

func unwrapAcquire(err error) error {
	if failure, ok := errors.AsType[*core.AcquireError](err); ok {
		return failure.Err
	}
	return err
}

// whyInVain says that too few nodes answer a caller whose wait has ended, and why; nil if enough do, if somebody has the lock, or
// if there was no time to find out.
func (a *attempt) whyInVain() error {
	switch there, _ := a.absence(); {
	case a.isRefused:
		return nil
	case there >= a.e.l.cfg.Quorum:
		return a.why
	case a.phase == asks && time.Since(a.begun) <= localq.SlowAnswer && a.e.delays == 0:
		return nil
	}
	return a.unavailable()
}

// tooManyFailed reports whether the attempt could not have enough nodes even if nobody else had any. Then it is not known whether
// somebody has the lock.
func (a *attempt) tooManyFailed() bool {
	left := 0
	for i, n := range a.e.l.nodes {
		if b := a.ballots[i]; b != nil && b.state != failed || b == nil && !n.away {
			left++
		}
	}
	return left < a.e.l.cfg.Quorum
}

// unavailable says that too few nodes answer, and why.
func (a *attempt) unavailable() error {
	there, absent := a.absence()
	n, k := len(a.e.l.nodes), a.e.l.cfg.Quorum
	if len(absent) == 0 {
		return fmt.Errorf("%w: %d of %d nodes have answered, of %d that it needs", core.ErrUnavailable, there, n, k)
	}
	return fmt.Errorf("%w: %d of %d nodes have answered, of %d that it needs: %w", core.ErrUnavailable, there, n, k, absent)
}

// absence returns how many nodes answer, and why others do not.
func (a *attempt) absence() (there int, absent nodeErrors) {
	l, now := a.e.l, time.Now()
	for i, n := range l.nodes {
		b := a.ballots[i]
		silent := b != nil && b.state == asking && now.Sub(a.begun) > localq.SlowAnswer
		failed := b != nil && b.state == failed
		if n.answers(now) && !silent && !failed {
			there++
		} else if why := cmp.Or(n.err, b.failure()); why != nil {
			absent = append(absent, n.explain(why))
		}
	}
	return there, absent
}

// failure returns why the request has failed; nil if it has not.
func (b *ballot) failure() error {
	if b == nil {
		return nil
	}
	return b.err
}

// explain says at which node err has occurred.
func (n *node) explain(err error) error {
	err = unwrapAcquire(err)
	if addr := n.engine.Addr(); addr != "" {
		return fmt.Errorf("node %d (%s): %w", n.index+1, addr, err)
	}
	return fmt.Errorf("node %d: %w", n.index+1, err)
}

// nodeErrors are why nodes do not answer, in their order.
type nodeErrors []error

func (all nodeErrors) Error() string {
	texts := make([]string, len(all))
	for i, err := range all {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (all nodeErrors) Unwrap() []error { return all }

// Fault is for core.FaultOf: waiting helps if that helps at one of the nodes.
func (all nodeErrors) Fault() core.Fault {
	least := core.Lasting
	for _, err := range all {
		least = min(least, core.FaultOf(err))
	}
	return least
}
