package votes

import (
	"testing"

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

func TestNoTwoWorkAndTokensRise(t *testing.T) { states.Unbroken(t, systems) }

// Without the rule a promise is broken. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("each attempt has an id of its own", newIDs, systems["a second attempt"].without, "a token goes back"),
	states.Without("a hold counts at more than half of the nodes", majority, systems["counters that differ"].without, "two work"),
	states.Without("a deadline is the k-th latest", kthLatest, systems["counters that differ"].without, "two work"),
	states.Without("a deadline counts from when the node was asked", fromSending, systems["slow answers"].without, "two work"),
	states.Without("the token is the k-th smallest", kthToken, systems["counters that differ"].without, "a token goes back"),
	states.Without("k nodes know the token", raised, systems["counters that differ"].without, "a token goes back"),
	states.Without("deadlines are checked after that", checkedAfter, systems["counters that differ"].without, "a token goes back"),
	states.Without("a late answer may raise the token", chosenAgain, systems["counters that differ"].without, "a token goes back"),
	states.Without("a node that forgets grants nothing for a lease", forgottenWait, systems["a node forgets"].without, "two work"),
	states.Without("it is raised before it grants again", forgottenRaised, systems["a node forgets"].without, "a token goes back"),
	states.Without("or by its own clock", clockRaised, systems["a node is gone, and one forgets"].without, "a token goes back"),
	states.Without("no node is told of a token that is further ahead", clockBound, systems["a counter is further ahead than that"].without, "a token goes back"),
	states.Without("a node that forgets grants nothing in a run of several", gated, systems["votes go together to a node that forgets"].without, "two work"),
	states.Without("a run of several takes what is free", freeOnes, systems["votes go together"].without, "two work"),
	states.Without("it takes no lock for an id that is over", doneOnes, systems["votes of two attempts go together"].without, "a node grants the lock to an id that is over"),
	states.Without("it takes a lock once", oneOfAKey, systems["votes of two attempts go together"].without, "two work"),
	states.Without("it counts all tokens", countsAll, systems["votes go together"].without, "a token goes back"),
	states.Without("the first node is released last", firstLast, systems["one waits for the other"].without, "a process is woken by a release that is in its way"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	begin := state{forgets: y.forgets}
	for n := range begin.node {
		begin.node[n].since = never
	}
	begin.node[first].counter = y.ahead
	return states.Search(begin, y.moves, y.broken)
}
