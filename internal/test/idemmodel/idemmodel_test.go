package idemmodel

import (
	"maps"
	"testing"

	"github.com/lockmw/go/internal/test/states"
	"github.com/lockmw/go/internal/test/suite"
)

func (y system) without(off rule) system {
	y.off = off
	return y
}

func (y system) with(f faults) system {
	y.faults = f
	return y
}

func (y system) until(end int8) system {
	y.end = end
	return y
}

func (y system) ending(all ...ending) system {
	y.ends = all
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	y.calls = max(y.calls, 1)
	return states.Search(state{faults: y.faults}, y.moves, (*state).broken)
}

// The systems have only the faults that are necessary.
var (
	refusing   = system{policy: []policy{refuse, refuse}, end: 3}
	again      = system{policy: []policy{runAgain, runAgain}, end: 3}
	recovering = system{policy: []policy{recovers, recovers}, end: 3}
	three      = system{policy: []policy{runAgain, runAgain, runAgain}, end: 2}
	mixed      = system{policy: []policy{runAgain, runAgain, refuse}, end: 1}
	requests   = system{policy: []policy{runAgain, runAgain}, prints: [most]int8{1, 2}, end: 3}
	all        = []ending{keep, forget, leave}
)

func TestTheWorkRunsOnce(t *testing.T) {
	systems := map[string]system{
		"refuse, late copies":    refusing.with(faults{copies: 1, quits: 1}).ending(keep, forget).until(2),
		"run again, late copies": again.with(faults{copies: 1, pauses: 1}).until(2),
		"refuse, ended again":    refusing.with(faults{quits: 1, doubts: 1, losses: 1}).until(2),
		"two policies":           mixed.with(faults{pauses: 1, quits: 1, losses: 1}),
	}
	if suite.Full() {
		maps.Copy(systems, map[string]system{
			"refuse, crashes":             refusing.with(faults{deaths: 1, pauses: 1}).ending(all...),
			"recover, crashes":            recovering.with(faults{deaths: 1, losses: 1, early: 1}).ending(all...).until(2),
			"refuse, lost answers":        refusing.with(faults{losses: 2, quits: 1}).ending(keep, leave).until(2),
			"refuse, early losses":        refusing.with(faults{early: 1, copies: 1, quits: 1}).ending(keep, forget),
			"refuse, another id":          refusing.with(faults{reasks: 1, quits: 1}),
			"run again, ended again":      again.with(faults{doubts: 2, pauses: 1, early: 1, copies: 1}).until(2),
			"refuse, another id, late":    refusing.with(faults{reasks: 1, copies: 1}).until(1),
			"run again, lost answers":     again.with(faults{losses: 2, pauses: 1}).ending(keep, leave).until(2),
			"run again, crashes":          again.with(faults{deaths: 2, quits: 1}).ending(all...),
			"run again, another id":       again.with(faults{reasks: 1, pauses: 1}).until(2),
			"recover, late copies":        recovering.with(faults{copies: 1, pauses: 1}).ending(all...).until(2),
			"three runs":                  three.with(faults{pauses: 1, deaths: 1}),
			"three runs, one is given up": three.with(faults{pauses: 1, quits: 1}).ending(keep, forget).until(1),
			"two requests":                requests.with(faults{copies: 1, deaths: 1, pauses: 1}).ending(keep, leave),
		})
	}
	states.Unbroken(t, systems)
}

// Without the rule, the promise is broken. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("a begin writes the record", opens, refusing.with(faults{pauses: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("only the holder begins after a wait", holderBegins, refusing.with(faults{quits: 2}).until(1).without, "the record is open, and no run has worked"),
	states.Without("the fingerprint is compared in an open record", openIsCompared, requests.with(faults{pauses: 1}).without, "requests are mixed"),
	states.Without("and in one with an answer", doneIsCompared, requests.without, "requests are mixed"),
	states.Without("a record that decides is read before a lock is taken", decidedFirst, refusing.with(faults{early: 1}).without, "a repetition waits though there is an answer"),
	states.Without("a record with an answer is not opened again", doneIsFinal, refusing.without, "a run begins though there is an answer"),
	states.Without("a copy of a begin finds its own run", ownIsKnown, refusing.with(faults{losses: 1}).without, "a call is refused because of its own run"),
	states.Without("a begin with an old token is refused", tokensCompared, refusing.with(faults{early: 1, copies: 1}).ending(keep, forget).without, "the record is open, and no run has worked"),
	states.Without("an answer after the deadline starts no run", lateIsUnused, again.without, "a record expires before its run"),
	states.Without("a cancel makes the run void", cancelIsVoid, refusing.with(faults{quits: 1}).without, "the record is open, and no run has worked"),
	states.Without("a release makes the run void", releaseIsVoid, refusing.with(faults{quits: 1}).without, "the record is open, and no run has worked"),
	states.Without("a run is void only under its id", voidKnowsID, refusing.with(faults{reasks: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("a repeated void changes nothing", voidIsOnce, mixed.with(faults{pauses: 1, quits: 1, losses: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("the outcome of a replaced run stays unknown", voidKeepsOther, mixed.with(faults{pauses: 1, quits: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("a run that has begun does not become void", begunIsNotVoid, refusing.with(faults{pauses: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("a call that asks again ends its former id", formerEnds, refusing.with(faults{reasks: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("an acquire after its cancel is refused", doneMarks, refusing.with(faults{quits: 1}).without, "the record is open, and no run has worked"),
	states.Without("an id stays until its cancel makes its run void", cancelledStays, refusing.with(faults{quits: 1, doubts: 1}).without, "the lock is free, and the record is open for a run that never works"),
	states.Without("only a policy that runs the work again replaces a run", policyIsAsked, refusing.with(faults{pauses: 1}).without, "a run begins while the outcome of another is unknown"),
	states.Without("a run ends only its own record", endKnowsRun, again.with(faults{pauses: 1}).without, "not the last run has given the answer"),
	states.Without("a run records its answer without the lock", endNeedsNoLock, refusing.with(faults{pauses: 1}).without, "an answer is not recorded though no other run has begun"),
	states.Without("a repeated end says the same", endIsRepeatable, refusing.with(faults{losses: 1}).without, "an answer that is recorded is not sent"),
	states.Without("unless the record has another answer", endComparesAnswer, recovering.with(faults{pauses: 1}).without, "two answers are sent"),
	states.Without("the lock is released when the answer is recorded", recordFirst, again.without, "a run begins while another one ends that has kept its lock"),
	states.Without("only a recorded answer is sent", recordedIsSent, again.with(faults{pauses: 1}).without, "an answer is sent that is not recorded"),
	states.Without("a forgotten run leaves its token", forgetKeepsToken, refusing.with(faults{early: 1, copies: 1}).ending(keep, forget).without, "the record is open, and no run has worked"),
	states.Without("and the number of earlier runs", forgetKeepsCount, three.with(faults{pauses: 1}).ending(keep, forget).until(1).without, "the number of the attempt goes down"),
	states.Without("a replaced run counts", replacedIsCounted, again.with(faults{pauses: 1}).without, "an earlier run is not counted"),
	states.Without("as one that never returned", silentIsCounted, three.with(faults{pauses: 2}).without, "too many runs never return"),
	states.Without("a record lasts longer than a hold", outlivesRun, refusing.without, "a record expires before its run"),
	states.Without("a refused call does not prolong it", refusedIsShort, refusing.with(faults{pauses: 1}).without, "a record lasts too long"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }
