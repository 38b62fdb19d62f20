package interrupt_test

import (
	"slices"
	"testing"

	"github.com/lockmw/go/internal/test/interrupt"
)

func TestJudgeFindsEachFault(t *testing.T) {
	a, b := interrupt.Effect{Answer: "a", Attempt: 1}, interrupt.Effect{Answer: "b", Attempt: 2}
	got := func(answers ...string) (all []interrupt.Outcome) {
		for _, answer := range answers {
			all = append(all, interrupt.OutcomeOf(answer, nil))
		}
		return all
	}
	for name, c := range map[string]struct {
		outcomes []interrupt.Outcome
		effects  []interrupt.Effect
		once     bool
		want     []string
	}{
		"one effect":               {got("a", "a"), []interrupt.Effect{a}, true, nil},
		"an effect that may recur": {got("b", "b"), []interrupt.Effect{a, b}, false, nil},
		"a double effect":          {got("b", "b"), []interrupt.Effect{a, b}, true, []string{interrupt.DoubleEffect}},
		"two answers":              {got("a", "b", "a"), []interrupt.Effect{a, b}, false, []string{interrupt.Contradiction}},
		"an invention":             {got("c"), []interrupt.Effect{a}, true, []string{interrupt.Invention}},
		"an answer of nothing":     {got(""), nil, true, []string{interrupt.Invention}},
		"the same attempt twice":   {nil, []interrupt.Effect{a, a}, false, []string{interrupt.Recount}},
		"uncounted attempts":       {nil, []interrupt.Effect{{}, {}}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if faults := interrupt.Judge(c.outcomes, c.effects, c.once); !slices.Equal(faults, c.want) {
				t.Errorf("the faults are %q, want %q", faults, c.want)
			}
		})
	}
}
