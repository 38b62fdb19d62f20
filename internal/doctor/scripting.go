package doctor

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// The checks of this file run scripts on scratch keys. They find servers that speak the protocol of Redis and differ in what locks
// rest on.

// checkScripting checks what scripts may do. Whether they may publish is for the check of messages.
func (e *examination) checkScripting(ctx context.Context) {
	const check = "scripting"
	e.mute = nil
	e.tryMasters(ctx, check, "scripts may do what locks need", func(t *transport.Trial) ([]transport.Shortcoming, error) {
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
	e.tryMasters(ctx, "expiry", "keys expire to the millisecond", func(t *transport.Trial) ([]transport.Shortcoming, error) {
		return t.Expiry(ctx)
	})
}

// checkAtomicity checks whether one script runs in the middle of another.
func (e *examination) checkAtomicity(ctx context.Context) {
	e.tryMasters(ctx, "atomicity", "nothing was seen to run in the middle of a script", func(t *transport.Trial) ([]transport.Shortcoming, error) {
		return t.Atomicity(ctx, transport.Much)
	})
}

// tryMasters notes the shortcomings of each master. fine is the finding about a master that has none.
func (e *examination) tryMasters(ctx context.Context, check, fine string, try func(*transport.Trial) ([]transport.Shortcoming, error)) {
	for _, s := range e.masters() {
		all, err := e.tryAt(ctx, s, try)
		switch {
		case err != nil:
			e.noteOf(s, check, Unknown, Remedy(err), "%v", err)
		case len(all) == 0:
			e.noteOf(s, check, OK, "", "%s", fine)
		}
		for _, lack := range all {
			e.noteOf(s, check, verdictOn(lack), lack.Remedy, "%s", saw(lack))
		}
	}
	e.noteSame(e.masters())
}

func (e *examination) tryAt(
	ctx context.Context, s *server, try func(*transport.Trial) ([]transport.Shortcoming, error),
) ([]transport.Shortcoming, error) {
	tag, err := e.tagAt(ctx, s)
	if err != nil {
		return nil, err
	}
	return try(transport.NewTrial(e.rdb, e.options.Prefix, tag, e.topology.Cluster))
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
