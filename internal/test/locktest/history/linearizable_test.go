package history

import (
	"strings"
	"testing"
	"time"
)

// stepAt completes a step; times are in milliseconds.
func stepAt(from, to int, s Step) Step {
	s.key = "k"
	s.From, s.to = moment{at: time.Duration(from) * time.Millisecond}, moment{at: time.Duration(to) * time.Millisecond}
	return s
}

func grantStep(from, to, hold int, token int64) Step {
	return stepAt(from, to, Step{Kind: stepGrant, hold: hold, token: token})
}

// lostStep is the end of a hold whose Unlock ran between from and to and returned ErrLost.
func lostStep(from, to, deadline, hold int) Step {
	s := endStep(from, to, hold)
	s.From.N = 1 // a call has a number
	s.lose(time.Duration(deadline) * time.Millisecond)
	return s
}

func endStep(from, to, hold int) Step { return stepAt(from, to, Step{Kind: stepEnd, hold: hold}) }

// readSteps are a read hold: granted between the first two times, ended between the next two.
func readSteps(granted, got, unlocked, ended, hold int, token int64) []Step {
	g, e := grantStep(granted, got, hold, token), endStep(unlocked, ended, hold)
	g.reads, e.reads = true, true
	return []Step{g, e}
}

func busyReadStep(from, to int) Step {
	return stepAt(from, to, Step{Kind: stepBusy, reads: true})
}

func busyStep(from, to int) Step { return stepAt(from, to, Step{Kind: stepBusy}) }

// doubtStep is a call that began at from and failed with an unknown outcome.
func doubtStep(from int) Step { return stepAt(from, from, Step{Kind: StepDoubt}) }

func restStep(when int) Step { return stepAt(when, when, Step{Kind: stepRest}) }

// waitSteps are a call that waits until it is granted.
func waitSteps(from, to, hold int, token int64) []Step {
	s := grantStep(from+1, to, hold, token)
	s.waits = true
	return []Step{stepAt(from, from, Step{Kind: stepWaits}), s}
}

// permitSteps are a permit of a semaphore of 3: granted between the first two times, ended between the next two.
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
		"a grant during the previous release": {[]Step{
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
		"a grant before the deadline of a hold that was lost later": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 15, 2, 8), lostStep(50, 100, 20, 1), endStep(25, 30, 2),
		}, false},
		"a grant at the deadline of a hold that was lost then": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 20, 2, 8), lostStep(20, 100, 20, 1), endStep(25, 30, 2),
		}, true},
		"a grant before the deadline of a lost hold, during its Unlock": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 35, 2, 8), lostStep(30, 100, 60, 1), endStep(36, 38, 2),
		}, true},
		"a grant before the deadline and the Unlock of a lost hold": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 25, 2, 8), lostStep(30, 100, 60, 1), endStep(26, 28, 2),
		}, false},
		"a grant after the deadline of a lost hold": {[]Step{
			grantStep(0, 10, 1, 7), grantStep(12, 25, 2, 8), lostStep(50, 100, 20, 1), endStep(26, 30, 2),
		}, true},
		"a token that decreases": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), grantStep(40, 50, 2, 6),
		}, false},
		"a token that is used twice": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), grantStep(40, 50, 2, 7),
		}, false},
		"TryLock of a held lock is busy": {[]Step{
			grantStep(0, 10, 1, 7), busyStep(12, 14), endStep(20, 30, 1),
		}, true},
		"TryLock of a free lock is busy": {[]Step{
			grantStep(0, 10, 1, 7), endStep(20, 30, 1), busyStep(40, 41), grantStep(50, 60, 2, 8),
		}, false},
		"TryLock of a lock that was never taken is busy": {[]Step{busyStep(0, 1)}, false},
		"TryLock is busy before the server notices a lost hold": {[]Step{
			grantStep(0, 10, 1, 7), busyStep(30, 40), endStep(20, 100, 1),
		}, true},
		"TryLock is busy during a release of unknown outcome": {[]Step{
			grantStep(0, 10, 1, 7), busyStep(30, 40), endStep(20, 100, 1), restStep(100), grantStep(110, 120, 2, 8),
		}, true},
		"TryLock is busy while a call waits":    {append(waitSteps(0, 50, 1, 7), busyStep(20, 30)), true},
		"TryLock is busy before any call waits": {append(waitSteps(10, 50, 1, 7), busyStep(2, 4)), false},
		"TryLock is busy after the waiting call has unlocked": {append(waitSteps(0, 20, 1, 7),
			endStep(30, 40, 1), busyStep(42, 43)), false},
		"TryLock is busy during a call of unknown outcome": {[]Step{
			doubtStep(0), busyStep(10, 20), restStep(30),
		}, true},
		"TryLock is busy before a call of unknown outcome": {[]Step{busyStep(0, 10), doubtStep(15)}, false},
		"TryLock is busy after the rest that follows a call of unknown outcome": {[]Step{
			doubtStep(0), restStep(10), busyStep(12, 20),
		}, false},
		"a grant during a call of unknown outcome": {[]Step{
			doubtStep(0), grantStep(10, 20, 1, 7), endStep(30, 40, 1),
		}, true},
		"a rest while the lock is held": {[]Step{grantStep(0, 10, 1, 7), restStep(20), endStep(30, 40, 1)}, false},
		"two readers together":          {append(readSteps(0, 10, 20, 30, 1, 7), readSteps(5, 15, 25, 35, 2, 7)...), true},
		"a writer during a reader": {append(readSteps(0, 10, 20, 30, 1, 7),
			grantStep(12, 15, 2, 8), endStep(25, 30, 2)), false},
		"a reader during a writer's release": {append(readSteps(15, 30, 40, 50, 2, 7),
			grantStep(0, 10, 1, 7), endStep(20, 35, 1)), true},
		"a reader with a smaller token than the writer before": {append(readSteps(40, 50, 60, 70, 2, 6),
			grantStep(0, 10, 1, 7), endStep(20, 30, 1)), false},
		"a writer with the readers' token": {append(readSteps(0, 10, 20, 30, 1, 7),
			grantStep(40, 50, 2, 7), endStep(60, 70, 2)), false},
		"a writer after only the first of two readers has ended": {append(append(readSteps(0, 10, 20, 30, 1, 7),
			readSteps(5, 15, 60, 70, 2, 7)...), grantStep(40, 50, 3, 8), endStep(55, 58, 3)), false},
		"TryLock to read is busy during a reader":  {append(readSteps(0, 10, 20, 30, 1, 7), busyReadStep(12, 14)), false},
		"TryLock to write is busy during a reader": {append(readSteps(0, 10, 20, 30, 1, 7), busyStep(12, 14)), true},
		"a rest during a reader":                   {append(readSteps(0, 10, 30, 40, 1, 7), restStep(20)), false},
		"permits that fit":                         {append(permitSteps(0, 10, 20, 30, 1, 7, 2), permitSteps(2, 12, 25, 35, 2, 8, 1)...), true},
		"permits that do not fit":                  {append(permitSteps(0, 10, 20, 30, 1, 7, 2), permitSteps(12, 15, 25, 35, 2, 8, 2)...), false},
		"permits with one token":                   {append(permitSteps(0, 10, 20, 30, 1, 7, 1), permitSteps(2, 12, 25, 35, 2, 7, 1)...), false},
		"a permit after one of two has ended": {append(append(permitSteps(0, 10, 20, 30, 1, 7, 2),
			permitSteps(2, 12, 60, 70, 2, 8, 1)...), permitSteps(25, 40, 60, 70, 3, 9, 2)...), true},
		"TryLock of a permit that fits is busy":         {append(permitSteps(0, 10, 20, 30, 1, 7, 2), busyPermitStep(12, 14, 1)), false},
		"TryLock of a permit that does not fit is busy": {append(permitSteps(0, 10, 20, 30, 1, 7, 2), busyPermitStep(12, 14, 2)), true},
		"a rest while a permit is held":                 {append(permitSteps(0, 10, 30, 40, 1, 7, 1), restStep(20)), false},
		"the end of a hold that was not granted":        {[]Step{grantStep(0, 10, 1, 7), endStep(20, 30, 2)}, false},
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
