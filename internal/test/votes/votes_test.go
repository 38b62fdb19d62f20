package votes

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

// systems are small enough to be searched in seconds, each for some of the rules.
var systems = map[string]system{
	"different counters":              {end: 2, bids: 1, ahead: 2},
	"slow answers":                    {end: 2, bids: 1, slow: true},
	"a second bid":                    {end: 0, bids: 2, late: true},
	"a node loses its data":           {end: 2, bids: 1, ahead: 1, forgets: 1},
	"one process waits for the other": {end: 1, bids: 1, queues: true},

	"a node is gone, and one loses its data": {end: 2, bids: 1, ahead: 9, forgets: 1, clocks: true},
	"two nodes lose their data":              {end: 2, bids: 1, ahead: 9, forgets: 2, both: true, clocks: true},
	"a counter is too far ahead":             {end: 2, bids: 1, ahead: 13, forgets: 1, clocks: true},

	"a batch of votes":                               {end: 2, bids: 1, together: true},
	"votes of two bids in a batch":                   {end: 0, bids: 2, late: true, together: true},
	"a batch of votes at a node that loses its data": {end: 0, bids: 1, forgets: 1, together: true},
}

func TestNoTwoProcessesWorkAndTokensRise(t *testing.T) { states.Unbroken(t, systems) }

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, system]{
	states.Without("each bid has its own id", newIDs, systems["a second bid"].without, "a token falls"),
	states.Without("a hold needs more than half of the nodes", majority, systems["different counters"].without, "two processes work"),
	states.Without("a deadline is the k-th latest", kthLatest, systems["different counters"].without, "two processes work"),
	states.Without("a deadline counts from when the node was asked", fromSending, systems["slow answers"].without, "two processes work"),
	states.Without("the token is the k-th smallest", kthToken, systems["different counters"].without, "a token falls"),
	states.Without("k nodes know the token", raised, systems["different counters"].without, "a token falls"),
	states.Without("deadlines are checked after that", checkedAfter, systems["different counters"].without, "a token falls"),
	states.Without("a late answer may raise the token", chosenAgain, systems["different counters"].without, "a token falls"),
	states.Without("a node that lost its data grants nothing for a lease", forgottenWait, systems["a node loses its data"].without, "two processes work"),
	states.Without("such a node is raised before it grants again", forgottenRaised, systems["a node loses its data"].without, "a token falls"),
	states.Without("the others have lost no tokens", intactOthers, systems["two nodes lose their data"].without, "a token falls"),
	states.Without("such a node is raised by its own clock if too few others answer", clockRaised, systems["a node is gone, and one loses its data"].without, "a token falls"),
	states.Without("no node is raised too far ahead of its clock", clockBound, systems["a counter is too far ahead"].without, "a token falls"),
	states.Without("a node that lost its data grants no vote of a batch", gated, systems["a batch of votes at a node that loses its data"].without, "two processes work"),
	states.Without("a batch takes only free locks", freeOnes, systems["a batch of votes"].without, "two processes work"),
	states.Without("a batch grants no ended id", doneOnes, systems["votes of two bids in a batch"].without, "a node grants the lock to an ended id"),
	states.Without("a batch grants each lock once", oneOfAKey, systems["votes of two bids in a batch"].without, "two processes work"),
	states.Without("a batch counts all tokens", countsAll, systems["a batch of votes"].without, "a token falls"),
	states.Without("the first node is released last", firstLast, systems["one process waits for the other"].without, "a process is woken by a release that is in its way"),
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
