package interrupt

import (
	"errors"
	"fmt"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A Kind says what a caller knows after a call.
type Kind string

// The kinds.
const (
	Success     Kind = "success"      // the work is done, and the caller has its answer
	InFlight    Kind = "in flight"    // another run works
	Unknown     Kind = "unknown"      // an earlier run left no outcome
	NotRecorded Kind = "not recorded" // the work ran in this call, and its answer does not count
	Done        Kind = "done"         // the work is done, and its answer was not kept
	Nothing     Kind = "nothing ran"
	Failed      Kind = "failed" // any other error: the caller knows nothing
)

// An Outcome is what a call has returned.
type Outcome struct {
	Kind   Kind
	Answer string // with Success
	Text   string // of the error
}

// OutcomeOf returns the Outcome of a call.
func OutcomeOf(answer string, err error) Outcome {
	if err == nil {
		return Outcome{Kind: Success, Answer: answer}
	}
	o := Outcome{Kind: Failed, Text: err.Error()}
	for _, c := range []struct {
		err  error
		kind Kind
	}{
		{idempotency.ErrNotRecorded, NotRecorded}, {idempotency.ErrInFlight, InFlight}, {idempotency.ErrUnknownOutcome, Unknown},
		{idempotency.ErrDone, Done}, {lockmw.ErrUnavailable, Nothing}, {lockmw.ErrLost, Nothing}, {lockmw.ErrNotRequested, Nothing},
	} {
		if errors.Is(err, c.err) {
			o.Kind = c.kind
			break
		}
	}
	return o
}

// An Effect is work that was done.
type Effect struct {
	Answer  string
	Attempt int // idempotency.Attempt; 0 if runs are not counted
}

// The faults that Judge finds.
const (
	DoubleEffect  = "double effect"
	Contradiction = "contradicting answers"
	Invention     = "an answer without an effect"
	Recount       = "two runs with the same attempt"
)

// Judge returns the faults of the calls of one key, given all their outcomes and effects. once is whether the effect must not
// happen twice.
func Judge(outcomes []Outcome, effects []Effect, once bool) (faults []string) {
	if once && len(effects) > 1 {
		faults = append(faults, DoubleEffect)
	}
	happened, attempts, recounted := make(map[string]bool), make(map[int]bool), false
	for _, e := range effects {
		recounted = recounted || e.Attempt > 0 && attempts[e.Attempt]
		happened[e.Answer], attempts[e.Attempt] = true, true
	}
	answers, invented := make(map[string]bool), false
	for _, o := range outcomes {
		if o.Kind == Success {
			answers[o.Answer] = true
			invented = invented || !happened[o.Answer]
		}
	}
	if len(answers) > 1 {
		faults = append(faults, Contradiction)
	}
	if invented {
		faults = append(faults, Invention)
	}
	if recounted {
		faults = append(faults, Recount)
	}
	return faults
}

// String returns the outcome as text.
func (o Outcome) String() string {
	if o.Kind == Success {
		return fmt.Sprintf("%s with %s", o.Kind, o.Answer)
	}
	return fmt.Sprintf("%s (%s)", o.Kind, o.Text)
}
