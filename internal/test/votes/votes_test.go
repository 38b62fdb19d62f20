package votes

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
)

// systems are small enough to be searched in seconds, each for some of the rules.
var systems = map[string]system{
	"counters that differ":    {end: 2, attempts: 1, ahead: 2},
	"slow answers":            {end: 2, attempts: 1, slow: true},
	"a second attempt":        {end: 0, attempts: 2, late: true},
	"a node forgets":          {end: 2, attempts: 1, ahead: 1, forgets: 1},
	"one waits for the other": {end: 1, attempts: 1, queues: true},

	"a node is gone, and one forgets":      {end: 2, attempts: 1, ahead: 9, forgets: 1, clocks: true},
	"a counter is further ahead than that": {end: 2, attempts: 1, ahead: 13, forgets: 1, clocks: true},

	"votes go together":                        {end: 2, attempts: 1, together: true},
	"votes of two attempts go together":        {end: 0, attempts: 2, late: true, together: true},
	"votes go together to a node that forgets": {end: 0, attempts: 1, forgets: 1, together: true},
}

func TestNoTwoWorkAndTokensRise(t *testing.T) {
	race.FindsNothing(t)
	for name, y := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := y.search()
			if found.Broken != "" {
				t.Fatalf("after %d states %s:\n%s", found.States, found.Broken, found.Path)
			}
			t.Logf("%d states", found.States)
		})
	}
}

// Without the rule a promise is broken. The test finds the shortest way to that.
var needs = []struct {
	name   string
	off    rule
	system string
	broken string
}{
	{"each attempt has an id of its own", newIDs, "a second attempt", "a token goes back"},
	{"a hold counts at more than half of the nodes", majority, "counters that differ", "two work"},
	{"a deadline is the k-th latest", kthLatest, "counters that differ", "two work"},
	{"a deadline counts from when the node was asked", fromSending, "slow answers", "two work"},
	{"the token is the k-th smallest", kthToken, "counters that differ", "a token goes back"},
	{"k nodes know the token", raised, "counters that differ", "a token goes back"},
	{"deadlines are checked after that", checkedAfter, "counters that differ", "a token goes back"},
	{"a late answer may raise the token", chosenAgain, "counters that differ", "a token goes back"},
	{"a node that forgets grants nothing for a lease", forgottenWait, "a node forgets", "two work"},
	{"it is raised before it grants again", forgottenRaised, "a node forgets", "a token goes back"},
	{"or by its own clock", clockRaised, "a node is gone, and one forgets", "a token goes back"},
	{"no node is told of a token that is further ahead", clockBound, "a counter is further ahead than that", "a token goes back"},
	{"a node that forgets grants nothing in a run of several", gated, "votes go together to a node that forgets", "two work"},
	{"a run of several takes what is free", freeOnes, "votes go together", "two work"},
	{"it takes no lock for an id that is over", doneOnes, "votes of two attempts go together", "a node grants the lock to an id that is over"},
	{"it takes a lock once", oneOfAKey, "votes of two attempts go together", "two work"},
	{"it counts all tokens", countsAll, "votes go together", "a token goes back"},
	{"the first node is released last", firstLast, "one waits for the other", "a process is woken by a release that is in its way"},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			y := systems[n.system]
			y.off = n.off
			found := y.search()
			if found.Broken != n.broken {
				t.Fatalf("without it, %q breaks in %d states, want %q:\n%s", found.Broken, found.States, n.broken, found.Path)
			}
			t.Logf("without it, %s after %d states:\n%s", found.Broken, found.States, found.Path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

func (y *system) search() states.Found {
	begin := state{forgets: y.forgets}
	for n := range begin.node {
		begin.node[n].since = never
	}
	begin.node[first].counter = y.ahead
	return states.Search(begin, y.moves, y.broken)
}
