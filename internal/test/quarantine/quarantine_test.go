package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/race"
)

func TestNoTwoWorkAfterALoss(t *testing.T) {
	race.FindsNothing(t)
	y := system{processes: 2, end: 6, losses: 2}
	states, path := y.search()
	if path != "" {
		t.Fatalf("after %d states two work:\n%s", states, path)
	}
	t.Logf("%d states", states)
}

// Without the rule, two work. The test finds the shortest way to that.
var needs = []struct {
	name      string
	off       rule
	processes int
	end       int8
}{
	{"the run that grants compares the id", runsCompare, 2, 4},
	{"a release hands over only at a trusted server", releasesAreGated, 3, 2},
	{"a poll grants only at a trusted server", pollsAreGated, 2, 4},
	{"a server is trusted when it was known for a quarantine", lossesAreWaited, 2, 4},
	{"a quarantine is longer than a lease", quarantineIsLong, 2, 4},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			y := system{off: n.off, processes: n.processes, end: n.end, losses: 1}
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
	list := []visited{{state: state{losses: y.losses, id: 1, since: -1}}}
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
