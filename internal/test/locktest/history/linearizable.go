package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history of a lock with leases is linearizable if the steps of each key can be ordered, each at a moment between its call and
// its return, such that
//
//   - a lock is granted only while nobody holds it, with a token greater than all before. A read lock may also be granted while
//     others read, with a token not less than those of all write locks before. Permits of a semaphore are granted only if their
//     weight and that of all held permits is at most n;
//   - a hold ends when it is unlocked, or at some moment after its deadline. An end of unknown outcome takes place at some
//     moment before the next rest. If a hold was lost during its Unlock, either may have ended it;
//   - a TryLock is busy only while another call holds the lock or waits for it, because it does not overtake waiters. Other
//     readers are no reason for a busy read lock, nor are permits that leave enough free weight;
//   - a call that failed in another way may have been granted the lock, and had the grant undone, at any moment between its
//     start and the next rest. Such a grant is undone whenever another call needs the lock, so it never prevents a grant; it
//     only excuses a busy lock. So one bit of the state, doubt, stands for all such calls.
//
// The last point keeps the search small. At a rest, no call is under way.

// lockState is the state of a lock between two steps.
type lockState struct {
	holder  int   // the writer; 0: none
	readers int   // number of readers
	used    int   // weight of the held permits
	token   int64 // the greatest granted token
	written int64 // … of a writer
	waiting int
	doubt   bool
}

// after returns the state after s; false if s cannot take place.
func (l lockState) after(s *Step) (lockState, bool) {
	switch s.Kind {
	case stepWaits:
		l.waiting++
		return l, true
	case stepGrant:
		return l.granted(s)
	case stepBusy:
		isHeld := l.holder != 0 || l.readers > 0 && !s.reads
		if s.permits > 0 {
			isHeld = l.used+s.weight > s.permits
		}
		return l, isHeld || l.waiting > 0 || l.doubt
	case StepDoubt:
		l.doubt = true
		return l, true
	case stepEnd:
		if s.reads {
			l.readers--
			return l, l.readers >= 0
		}
		if s.permits > 0 {
			l.used -= s.weight
			return l, l.used >= 0
		}
		held := l.holder
		l.holder = 0
		return l, held == s.hold
	case stepRest:
		if l.holder != 0 || l.readers > 0 || l.used > 0 || l.waiting > 0 {
			return l, false
		}
		l.doubt = false
		return l, true
	}
	return l, false
}

// granted returns the state after a grant.
func (l lockState) granted(s *Step) (lockState, bool) {
	switch {
	case l.holder != 0, l.readers > 0 && !s.reads, s.waits && l.waiting == 0:
		return l, false
	case s.reads && s.token < l.written, !s.reads && s.token <= l.token, s.permits > 0 && l.used+s.weight > s.permits:
		return l, false
	}
	l.token = max(l.token, s.token)
	switch {
	case s.permits > 0:
		l.used += s.weight
	case s.reads:
		l.readers++
	default:
		l.holder, l.written = s.hold, s.token
	}
	if s.waits {
		l.waiting--
	}
	return l, true
}

func (l lockState) String() string {
	var b strings.Builder
	switch {
	case l.holder != 0:
		fmt.Fprintf(&b, "held by call %d", l.holder)
	case l.used != 0:
		fmt.Fprintf(&b, "permits of weight %d are held", l.used)
	case l.readers != 0:
		fmt.Fprintf(&b, "held by %d readers", l.readers)
	default:
		b.WriteString("free")
	}
	fmt.Fprintf(&b, ", last token %d, %d waiting", l.token, l.waiting)
	if l.doubt {
		b.WriteString(", calls in doubt")
	}
	return b.String()
}

// lockModel is lockState for porcupine. A step is the input. There is no output: the step includes the result of its call.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		next, ok := state.(lockState).after(input.(*Step))
		return ok, next
	},
	Hash: func(state any) uint64 {
		l := state.(lockState)
		return uint64(l.token)<<20 ^ uint64(l.holder)<<4 ^ uint64(l.waiting) ^ uint64(l.readers+l.used)<<12
	},
}

// Check returns the violations of the history, key by key; "" if it is linearizable.
func (h *History) Check() string {
	wrong := slices.Clone(h.violations)
	byKey := make(map[string][]porcupine.Operation)
	steps, from, to := h.ordered()
	for i := range steps {
		key := steps[i].key
		byKey[key] = append(byKey[key], porcupine.Operation{Input: &steps[i], Call: from[i], Return: to[i]})
	}
	for key, ops := range byKey {
		switch porcupine.CheckOperationsTimeout(lockModel, ops, checkLimit) {
		case porcupine.Ok:
		case porcupine.Unknown:
			wrong = append(wrong, fmt.Sprintf("%q: %d steps could not be checked within %v", key, len(ops), checkLimit))
		case porcupine.Illegal:
			wrong = append(wrong, explain(key, ops))
		}
	}
	return strings.Join(wrong, "\n")
}

const checkLimit = time.Minute

// explain shows the longest linearizable part of a history, and the steps that cannot follow it.
func explain(key string, ops []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(lockModel, ops, checkLimit)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	var state lockState
	placed := make(map[*Step]bool)
	for _, op := range longest {
		s := op.Input.(*Step)
		state, _ = state.after(s)
		placed[s] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q: not linearizable. After %d of %d steps the lock is: %v. The last steps:", key, len(longest), len(ops), state)
	const shown = 6
	for _, op := range longest[max(0, len(longest)-shown):] {
		fmt.Fprintf(&b, "\n\t%v", op.Input)
	}
	b.WriteString("\nNone of these can come next:")
	left := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return placed[op.Input.(*Step)] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, op := range left[:min(shown, len(left))] {
		fmt.Fprintf(&b, "\n\t%v", op.Input)
	}
	b.WriteString("\nSteps of the holder:")
	for _, op := range ops {
		if s := op.Input.(*Step); s.hold == state.holder && s.hold != 0 {
			fmt.Fprintf(&b, "\n\t%v", s)
		}
	}
	return b.String()
}

func (s *Step) String() string {
	text := fmt.Sprintf("%v to %v: call %d %s", s.From.at, s.to.at, s.hold, s.Kind)
	if s.Open {
		text += ", at some time until the next rest"
	}
	if s.reads {
		text += ", for reading"
	}
	if s.permits > 0 {
		text += fmt.Sprintf(", weight %d of %d", s.weight, s.permits)
	}
	if s.token != 0 {
		text += fmt.Sprintf(", token %d", s.token)
	}
	return text
}
