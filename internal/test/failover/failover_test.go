package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/race"
)

func TestNoTwoWorkAfterAFailover(t *testing.T) {
	race.FindsNothing(t)
	y := system{end: 5, faults: faults{failovers: 1, lost: 1}}
	states, path := y.search()
	if path != "" {
		t.Fatalf("after %d states two work:\n%s", states, path)
	}
	t.Logf("%d states", states)
}

// Without the rule, two work. The test finds the shortest way to that.
var needs = []struct {
	name   string
	off    rule
	faults faults
}{
	{"a grant counts only when the replica has it", grantsWait, faults{failovers: 1}},
	{"a renewal counts only when the replica has it", renewalsWait, faults{failovers: 1}},
	{"nobody begins on a message", pushesDoNot, faults{failovers: 1}},
	{"a run that says \"held\" has written", runsWrite, faults{failovers: 1}},
	{"WAIT is sent on the connection of the run", sameConnection, faults{failovers: 1}},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			y := system{off: n.off, end: 4, faults: n.faults}
			states, path := y.search()
			if path == "" {
				t.Fatalf("without it, nothing breaks in %d states", states)
			}
			t.Logf("without it, two work after %d states:\n%s", states, path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

// search visits all states, breadth first, until two processes work in one. It returns how many it visited, and the moves
// that lead to that one.
func (y *system) search() (states int, path string) {
	type visited struct {
		state  state
		parent int
		by     string
	}
	list := []visited{{state: state{faults: y.faults}}}
	index := map[state]bool{list[0].state: true}
	for i := 0; i < len(list); i++ {
		s := list[i].state
		if s.workers() > 1 {
			var moves []string
			for j := i; j > 0; j = list[j].parent {
				moves = append(moves, list[j].by)
			}
			slices.Reverse(moves)
			return len(list), strings.Join(moves, "\n")
		}
		for _, m := range y.moves(&s) {
			if !index[m.to] {
				index[m.to] = true
				list = append(list, visited{m.to, i, fmt.Sprintf("%2d  %s", s.now, m.name)})
			}
		}
	}
	return len(list), ""
}
