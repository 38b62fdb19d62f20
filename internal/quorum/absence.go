package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
)

var errSilent = fmt.Errorf("%w: it has not answered yet", core.ErrUnavailable)

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

// slowAnswer is after how long without an answer a node counts as unavailable. A caller whose time is over sooner gets
// ErrBusy.
const slowAnswer = 50 * time.Millisecond

// waitedInVain says that too few nodes answer a caller whose wait has ended, and why; nil if enough do, or there was no time
// to find out.
func (a *attempt) waitedInVain() error {
	switch there, _ := a.absence(); {
	case there >= a.e.l.cfg.Quorum:
		return a.why
	case a.phase == asks && time.Since(a.begun) <= slowAnswer && a.e.delays == 0:
		return nil
	}
	return a.unavailable()
}

// unavailable says that too few nodes answer, and why.
func (a *attempt) unavailable() error {
	there, why := a.absence()
	n, k := len(a.e.l.nodes), a.e.l.cfg.Quorum
	if why == nil {
		return fmt.Errorf("%w: %d of %d nodes have answered, of %d that it needs", core.ErrUnavailable, there, n, k)
	}
	return fmt.Errorf("%w: %d of %d nodes have answered, of %d that it needs: %w", core.ErrUnavailable, there, n, k, why)
}

// absence returns how many nodes answer, and why another one does not.
func (a *attempt) absence() (there int, why error) {
	l, now := a.e.l, time.Now()
	for i, n := range l.nodes {
		b := a.ballots[i]
		silent := b != nil && b.state == asking && now.Sub(a.begun) > slowAnswer
		if n.answers(now) && !silent {
			there++
		} else if n.err != nil {
			why = unwrapAcquire(n.err)
		}
	}
	return there, why
}
