package states_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

// A walk is two walkers on a line of ten places; they differ in their names only.
type walk [2]int

func (w *walk) over() bool { return w[0] == 9 && w[1] == 9 }

func walkers(holes ...int) states.Space[walk, string] {
	return states.Space[walk, string]{
		Moves: func(w *walk) (steps []states.Step[walk, string]) {
			for i, name := range []string{"first", "second"} {
				if to := *w; to[i] < 9 && !slices.Contains(holes, w[i]) {
					to[i]++
					steps = append(steps, states.Step[walk, string]{Move: name, To: to})
				}
			}
			return steps
		},
		Line:      func(m string, _, _ *walk) string { return m },
		Canonical: func(w *walk) { w[0], w[1] = min(w[0], w[1]), max(w[0], w[1]) },
		Over:      (*walk).over,
		Sure:      func(string) bool { return true },
	}
}

func TestASearchVisitsEachStateOnce(t *testing.T) {
	found := walkers().Search(func(*walk) string { return "" }, "nobody is stuck")
	if want := (states.Found{States: 55}); found != want { // pairs of ten places without an order
		t.Errorf("found %+v, want %+v", found, want)
	}
}

func TestThePathToABreachIsTheShortestAndKeepsTheNames(t *testing.T) {
	second := func(w *walk) string {
		if w[0] == 0 && w[1] == 3 {
			return "one of them is ahead"
		}
		return ""
	}
	found := walkers().Search(second, "")
	if found.Broken != "one of them is ahead" || found.Path != "first\nfirst\nfirst" {
		t.Errorf("found %+v", found)
	}
}

func TestTheFirstStateMayBreakAPromise(t *testing.T) {
	found := walkers().Search(func(*walk) string { return "all of them do" }, "")
	if found.Broken != "all of them do" || found.Path != "" || found.States != 1 {
		t.Errorf("found %+v", found)
	}
}

func TestAStateIsStuckIfNoSureMovesLeadToTheEnd(t *testing.T) {
	never := func(*walk) string { return "" }
	found := walkers(2).Search(never, "nobody is stuck")
	if found.Broken != "nobody is stuck" || found.Path != "" {
		t.Errorf("with a hole that nobody can avoid: %+v", found)
	}
	if found := walkers(2).Search(never, ""); found.Broken != "" {
		t.Errorf("a promise that was not asked for is broken: %+v", found)
	}
	chance := walkers()
	chance.Canonical = nil
	chance.Sure = func(name string) bool { return name == "first" }
	if found := chance.Search(never, "nobody is stuck"); found.Broken == "" {
		t.Error("a walker that may stand still forever is not stuck")
	}
}

func TestASearchEndsAtItsLimit(t *testing.T) {
	p := walkers(2)
	p.Most = 4
	found := p.Search(func(*walk) string { return "" }, "nobody is stuck")
	if !found.Cut || found.Broken != "" {
		t.Errorf("found %+v, want only that it is cut", found)
	}
}

func TestAPathIsTidy(t *testing.T) {
	p := walkers()
	p.Canonical = nil
	p.Tidy = func(w *walk) { w[1] = 0 } // nobody cares about the second
	p.Moves = func(w *walk) []states.Step[walk, string] {
		return []states.Step[walk, string]{{Move: "both", To: walk{w[0] + 1, w[1] + 1}}}
	}
	p.Line = func(_ string, from, to *walk) string {
		if from[1] != 0 || to[1] != 0 {
			t.Errorf("from %v to %v", *from, *to)
		}
		return strings.Repeat(".", to[0])
	}
	found := p.Search(func(w *walk) string {
		if w[0] == 2 {
			return "two"
		}
		return ""
	}, "")
	if found.Path != ".\n.." || found.States != 3 {
		t.Errorf("found %+v", found)
	}
}
