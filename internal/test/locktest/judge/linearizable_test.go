package judge

import (
	"strings"
	"testing"
	"time"
)

// stepAt builds steps by hand: times are milliseconds.
func stepAt(from, to int, s Step) Step {
	s.key = "k"
	s.From, s.to = moment{at: time.Duration(from) * time.Millisecond}, moment{at: time.Duration(to) * time.Millisecond}
	return s
}

func grantStep(from, to, hold int, token int64) Step {
	return stepAt(from, to, Step{Kind: stepGrant, hold: hold, token: token})
}

// lostStep is the end of a hold that was lost, as Unlock said, which was called between the first two times.
func lostStep(from, to, deadline, hold int) Step {
	s := endStep(from, to, hold)
	s.From.N = 1 // as that of a call
	s.lose(time.Duration(deadline) * time.Millisecond)
	return s
}

func endStep(from, to, hold int) Step { return stepAt(from, to, Step{Kind: stepEnd, hold: hold}) }

// readSteps is a call that reads: granted between the first two times, and ended between the others.
func readSteps(granted, got, unlocked, ended, hold int, token int64) []Step {
	g, e := grantStep(granted, got, hold, token), endStep(unlocked, ended, hold)
	g.reads, e.reads = true, true
	return []Step{g, e}
}

func busyReadStep(from, to int) Step {
	return stepAt(from, to, Step{Kind: stepBusy, reads: true})
}

func busyStep(from, to int) Step { return stepAt(from, to, Step{Kind: stepBusy}) }

// doubtStep is a call that began at a time and failed in a way that says nothing.
func doubtStep(from int) Step { return stepAt(from, from, Step{Kind: StepDoubt}) }

func restStep(when int) Step { return stepAt(when, when, Step{Kind: stepRest}) }

// waitSteps is a call that waits from a time until it is granted.
func waitSteps(from, to, hold int, token int64) []Step {
	s := grantStep(from+1, to, hold, token)
	s.waits = true
	return []Step{stepAt(from, from, Step{Kind: stepWaits}), s}
}

// permitSteps is a call that takes permits of a semaphore with 3: granted between the first two times, and ended between the others.
func permitSteps(granted, got, unlocked, ended, hold int, token int64, weight int) []Step {
	g, e := grantStep(granted, got, hold, token), endStep(unlocked, ended, hold)
	g.weight, g.permits, e.weight, e.permits = weight, 3, weight, 3
	return []Step{g, e}
}

func busyPermitStep(from, to, weight int) Step {
	return stepAt(from, to, Step{Kind: stepBusy, weight: weight, permits: 3})
}

func TestCheckOfHistories(t *testing.T) {
	for name, test := range map[string]struct {
		steps []Step
		legal bool
	}{
		"one after the other": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), grantStep(40, 50, 2, 8), endStep(60, 70, 2),
		}, true},
		"a grant during the release before it": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 50, 1), grantStep(15, 30, 2, 8),
		}, true},
		"two holders": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 15, 2, 8), endStep(20, 30, 1), endStep(25, 30, 2),
		}, false},
		"two holders of two keys": {[]Step{
			grantStep(0, 10, 1, 7), {
				key: "other", Kind: stepGrant, hold: 2, token: 7,
				From: moment{at: 2}, to: moment{at: 3},
			},
		}, true},
		"a holder before the deadline of one that was lost later": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 15, 2, 8), lostStep(50, 100, 20, 1), endStep(25, 30, 2),
		}, false},
		"a holder at the deadline of one that was lost then": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 20, 2, 8), lostStep(20, 100, 20, 1), endStep(25, 30, 2),
		}, true},
		"a holder before the deadline of one that was unlocked before, and lost": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 35, 2, 8), lostStep(30, 100, 60, 1), endStep(36, 38, 2),
		}, true},
		"a holder before the deadline and the release of one that was lost": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 25, 2, 8), lostStep(30, 100, 60, 1), endStep(26, 28, 2),
		}, false},
		"a holder after the deadline of one that was lost": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 25, 2, 8), lostStep(50, 100, 20, 1), endStep(26, 30, 2),
		}, true},
		"a token that goes back": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), grantStep(40, 50, 2, 6),
		}, false},
		"a token that is used twice": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), grantStep(40, 50, 2, 7),
		}, false},
		"a try while the lock is held": {[]Step{
			grantStep(0, 10, 1, 7), busyStep(12, 14), endStep(20, 30, 1),
		}, true},
		"a try that fails on a free lock": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), busyStep(40, 41), grantStep(50, 60, 2, 8),
		}, false},
		"a try that fails on a lock that was never taken": {[]Step{busyStep(0, 1)}, false},
		"a try before the server has noticed a lost hold": {[]Step{
			grantStep(0, 10, 1, 7), busyStep(30, 40), endStep(20, 100, 1),
		}, true},
		"a try during a release of unknown outcome": {[]Step{
			grantStep(0, 10, 1, 7), busyStep(30, 40), endStep(20, 100, 1), restStep(100), grantStep(110, 120, 2, 8),
		}, true},
		"a try that meets somebody who waits":   {append(waitSteps(0, 50, 1, 7), busyStep(20, 30)), true},
		"a try that fails before anybody waits": {append(waitSteps(10, 50, 1, 7), busyStep(2, 4)), false},
		"a try that fails after the call that waited has had its turn": {append(waitSteps(0, 20, 1, 7),
			endStep(30, 40, 1), busyStep(42, 43)), false},
		"a try that may have met a call of unknown outcome": {[]Step{
			doubtStep(0), busyStep(10, 20), restStep(30),
		}, true},
		"a try before a call of unknown outcome": {[]Step{busyStep(0, 10), doubtStep(15)}, false},
		"a try after a call of unknown outcome is over": {[]Step{
			doubtStep(0), restStep(10), busyStep(12, 20),
		}, false},
		"a call of unknown outcome does not keep others from the lock": {[]Step{
			doubtStep(0), grantStep(10, 20, 1, 7), endStep(30, 40, 1),
		}, true},
		"a rest with the lock held": {[]Step{grantStep(0, 10, 1, 7), restStep(20), endStep(30, 40, 1)}, false},
		"two that read at once":     {append(readSteps(0, 10, 20, 30, 1, 7), readSteps(5, 15, 25, 35, 2, 7)...), true},
		"one that reads while another does not": {append(readSteps(0, 10, 20, 30, 1, 7),
			grantStep(12, 15, 2, 8), endStep(25, 30, 2)), false},
		"one that reads after another's release": {append(readSteps(15, 30, 40, 50, 2, 7),
			grantStep(0, 10, 1, 7), endStep(20, 35, 1)), true},
		"one that reads with a token from before": {append(readSteps(40, 50, 60, 70, 2, 6),
			grantStep(0, 10, 1, 7), endStep(20, 30, 1)), false},
		"one that does not, with the token of those that read": {append(readSteps(0, 10, 20, 30, 1, 7),
			grantStep(40, 50, 2, 7), endStep(60, 70, 2)), false},
		"one that does not, after the first of two that read": {append(append(readSteps(0, 10, 20, 30, 1, 7),
			readSteps(5, 15, 60, 70, 2, 7)...), grantStep(40, 50, 3, 8), endStep(55, 58, 3)), false},
		"a try to read while another reads": {append(readSteps(0, 10, 20, 30, 1, 7), busyReadStep(12, 14)), false},
		"a try while another reads":         {append(readSteps(0, 10, 20, 30, 1, 7), busyStep(12, 14)), true},
		"a rest while one reads":            {append(readSteps(0, 10, 30, 40, 1, 7), restStep(20)), false},
		"permits that fit":                  {append(permitSteps(0, 10, 20, 30, 1, 7, 2), permitSteps(2, 12, 25, 35, 2, 8, 1)...), true},
		"permits that do not fit":           {append(permitSteps(0, 10, 20, 30, 1, 7, 2), permitSteps(12, 15, 25, 35, 2, 8, 2)...), false},
		"permits with one token":            {append(permitSteps(0, 10, 20, 30, 1, 7, 1), permitSteps(2, 12, 25, 35, 2, 7, 1)...), false},
		"a permit after one of several has ended": {append(append(permitSteps(0, 10, 20, 30, 1, 7, 2),
			permitSteps(2, 12, 60, 70, 2, 8, 1)...), permitSteps(25, 40, 60, 70, 3, 9, 2)...), true},
		"a try beside which there is room": {append(permitSteps(0, 10, 20, 30, 1, 7, 2), busyPermitStep(12, 14, 1)), false},
		"a try beside which there is none": {append(permitSteps(0, 10, 20, 30, 1, 7, 2), busyPermitStep(12, 14, 2)), true},
		"a rest while a permit is held":    {append(permitSteps(0, 10, 30, 40, 1, 7, 1), restStep(20)), false},
		"an end of another's hold":         {[]Step{grantStep(0, 10, 1, 7), endStep(20, 30, 2)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHistory()
			h.steps = test.steps
			switch wrong := h.Check(); {
			case test.legal && wrong != "":
				t.Errorf("refused: %s", wrong)
			case !test.legal && !strings.Contains(wrong, "not linearizable"):
				t.Errorf("accepted: %q", wrong)
			}
		})
	}
}
