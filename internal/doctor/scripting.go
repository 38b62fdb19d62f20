package doctor

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// The checks of this file run scripts on scratch keys. They find servers that speak the protocol of Redis and differ in what locks
// rest on.

// checkScripting checks what scripts may do. Whether they may publish is for the check of messages.
func (e *examination) checkScripting(ctx context.Context) {
	e.mute = nil
	e.tryMasters(ctx, "scripts may do what locks need", func(t *transport.Trial, ctx context.Context) ([]transport.Shortcoming, error) {
		all, err := t.Scripts(ctx)
		var others []transport.Shortcoming
		for _, s := range all {
			if s.Effect == transport.Degraded {
				e.mute = &s
			} else {
				others = append(others, s)
			}
		}
		return others, err
	})
}

// checkExpiry checks whether keys live as long as a script says.
func (e *examination) checkExpiry(ctx context.Context) {
	e.tryMasters(ctx, "keys expire to the millisecond", (*transport.Trial).Expiry)
}

// checkAtomicity checks whether one script runs in the middle of another.
func (e *examination) checkAtomicity(ctx context.Context) {
	e.tryMasters(ctx, "nothing was seen to run in the middle of a script", func(t *transport.Trial, ctx context.Context) ([]transport.Shortcoming, error) {
		return t.Atomicity(ctx, transport.Much)
	})
}

// A trial tries something on scratch keys of a server.
type trial func(*transport.Trial, context.Context) ([]transport.Shortcoming, error)

// tryMasters notes the shortcomings of each master. fine is the finding about a master that has none.
func (e *examination) tryMasters(ctx context.Context, fine string, try trial) {
	for _, s := range e.masters() {
		var all []transport.Shortcoming
		tag, err := e.tagAt(ctx, s)
		if err == nil {
			all, err = try(transport.NewTrial(e.rdb, e.options.Prefix, tag, e.topology.Cluster), ctx)
		}
		switch {
		case err != nil:
			e.noteOf(s, Unknown, Remedy(err), "%v", err)
		case len(all) == 0:
			e.noteOf(s, OK, "", "%s", fine)
		}
		for _, lack := range all {
			e.noteOf(s, verdictOn(lack), lack.Remedy, "%s", saw(lack))
		}
	}
	e.noteSame(e.masters())
}

func verdictOn(s transport.Shortcoming) Verdict {
	if s.Effect == transport.Degraded {
		return Warning
	}
	return Failure
}

func saw(s transport.Shortcoming) string {
	if s.Err == nil {
		return s.Fault
	}
	return s.Fault + ": " + s.Err.Error()
}
