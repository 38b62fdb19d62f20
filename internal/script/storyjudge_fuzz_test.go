package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// perform runs a script and checks what became of the lock.
func (s *stage) perform(r *run) {
	before := s.Look()
	got, err := r.send()
	after := s.Look()
	if time.Since(before.At) > time.Second {
		return // so busy a machine that leases may have run out in between
	}
	j := &judge{stage: s, run: r, before: before, after: after}
	if err != nil {
		j.refused(err)
	} else {
		if before.Holder.Fields["token"] == "0" {
			return // somebody else has written that
		}
		if got.strange != nil {
			j.fault("its answer is not understood: %v", got.strange)
			return
		}
		j.said(got)
	}
	j.leftAlone()
	j.ended()
	j.granted()
	j.admitted()
	j.turns()
	if wrong := after.Disorder(); !s.visited && len(wrong) > 0 {
		j.fault("%s", strings.Join(wrong, "\n"))
	}
	if last, ok := after.Counter(); ok {
		s.given = max(s.given, last)
	}
	if token, ok := after.Holder.Digits("token"); ok && !after.IsRead() && after.HolderID() != before.HolderID() {
		tokens, _ := after.Holder.Digits("tokens")
		s.written = max(s.written, token, token+tokens-1)
	}
}

// A judge knows what one run of a script may do.
type judge struct {
	*stage
	run           *run
	before, after *scripttest.Snapshot
}

func (j *judge) fault(format string, args ...any) {
	j.Helper()
	j.Errorf("%s: %s\nbefore: %v\nafter:  %v", j.run.text, fmt.Sprintf(format, args...), j.before, j.after)
}

// refused checks an error: of the documented kind, and if it is acquire.lua's without a trace, as
// nobody is going to cancel the id.
func (j *judge) refused(err error) {
	if last, _ := j.before.Counter(); last > scripttest.MaxToken-scripttest.MaxLines {
		return // there are no more tokens
	}
	isOurs := j.before.IsRead() || !slices.ContainsFunc(j.run.ends, j.isField)
	if isOurs && !strings.Contains(err.Error(), "WRONGTYPE") { // miniredis puts something before it
		j.fault("it failed: %v", err)
	}
	if len(j.run.ends) > 0 && j.run.request == "" {
		return // what can be ended is
	}
	parts := j.before.Parts()
	for name, a := range j.after.Parts() {
		if name == "holder" && j.before.IsRead() {
			continue // those whose time is over are taken out; leftAlone sees to the others
		}
		if !parts[name].Same(a) {
			j.fault("it failed after its first write: %v", err)
			return
		}
	}
}

// said checks that an answer is true.
func (j *judge) said(got answer) {
	switch j.run.op.(type) {
	case *script.Acquire:
		j.saidOf(j.run.request, got)
	case *script.Poll:
		if len(got.tickets) != len(j.run.own) {
			j.fault("it says something of %d ids", len(got.tickets))
			return
		}
		for i, ticket := range got.tickets {
			j.saidOf(j.run.own[i], ticket)
		}
	case *script.ReportWaiters:
		if id := j.run.own[0]; (j.before.HolderID() == id) != (got.outcome == script.Done) && !j.visited {
			j.fault("it answered that %s has the lock for itself: %t", id, got.outcome == script.Done)
		}
	case *script.Renew, *script.Release, *script.Downgrade:
		id := j.run.own[0]
		isField := j.isField(id)
		if j.before.Has(id) != (got.outcome == script.Done) && !(isField && (j.visited || isRelease(j.run.op))) {
			j.fault("it answered that %s is held: %t", id, got.outcome == script.Done)
		}
		if _, reads := j.after.Readers()[id]; isDowngrade(j.run.op) && got.outcome == script.Done && !reads && j.before.Holder.TTL > 0 {
			j.fault("it says that %s reads", id)
		}
	}
	if last, ok := j.after.Counter(); got.stamp >= 0 && (!ok || last != got.stamp) || got.stamp < -1 {
		j.fault("it says that the counter is %d", got.stamp)
	}
}

// isField reports whether the holder's hash has something of an id, which may be over or make no sense.
func (j *judge) isField(id string) bool {
	_, reads := j.before.Holder.Fields["reader:"+id]
	return reads || id != "" && j.before.Holder.Fields["id"] == id
}

func (j *judge) saidOf(id string, got answer) {
	token, _ := j.after.Holder.Digits("token")
	switch {
	case got.outcome == script.Held && (!j.after.Has(id) || token != got.token):
		j.fault("it says that %s has the lock with token %d", id, got.token)
	case got.outcome == script.Held && j.run.request == id && j.after.IsRead() && j.after.Readers()[id].Ends.Sub(j.after.Now) < scripttest.Lease-time.Second:
		j.fault("it says that %s reads for %v", id, scripttest.Lease)
	case got.outcome != script.Held && j.after.Has(id) && !(j.visited && j.after.Waits(id)): // somebody has put it there
		j.fault("it does not say that %s has the lock", id)
	case got.outcome == script.Queued && !j.after.Waits(id) && !strings.HasPrefix(j.run.text, "try") && !(j.visited && j.before.Waits(id)):
		j.fault("it says that %s is queued", id)
	}
}

// leftAlone checks that what is not ours, and others' holds, are as they were.
func (j *judge) leftAlone() {
	parts := j.after.Parts()
	for name, b := range j.before.Parts() {
		if a := parts[name]; b.IsStrange() && (!b.Same(a) || b.TTL < 0 && a.TTL >= 0) {
			j.fault("a stranger's %s was changed", name)
		}
	}
	if _, ok := j.before.Counter(); !ok && !j.before.Fence.Same(&j.after.Fence) {
		j.fault("a counter that is none was changed")
	}
	if _, ok := j.after.Counter(); !ok && !j.before.Fence.Same(&j.after.Fence) {
		j.fault("the counter is none any more")
	}
	if isNone := strings.Trim(j.before.Kept.Fields[""], "0123456789") != ""; isNone && !j.before.Kept.Same(&j.after.Kept) {
		j.fault("a kept place that is none was changed")
	}
	if j.before.IsRead() {
		j.readersLeftAlone()
		return
	}
	b, a := &j.before.Holder, &j.after.Holder
	may := []string{"wanted"} // change
	if isTell(j.run.op) && slices.Contains(j.run.own, b.Fields["id"]) {
		may = append(may, "waiters")
	}
	switch {
	case !b.Exists() || b.IsStrange(), b.TTL >= 0 && b.TTL <= j.after.At.Sub(j.before.At):
	case slices.ContainsFunc(j.run.ends, j.isField), b.Fields["mode"] == core.Read.String() && slices.ContainsFunc(j.run.own, j.isField):
	case !b.Same(a, may...), b.TTL < 0 && a.TTL >= 0 && !slices.Contains(j.run.own, b.Fields["id"]):
		j.fault("another's hold was changed")
	}
}

// readersLeftAlone checks that those who read go on as they did, and for at least as long.
func (j *judge) readersLeftAlone() {
	readers := j.after.Readers()
	for id, b := range j.before.Readers() {
		a, reads := readers[id]
		own := slices.Contains(j.run.own, id)
		longer := a.Ends.After(b.Ends)
		a.Ends = b.Ends
		switch {
		case id != "" && id[0] == '-': // one that has gone keeps the key taken for a while
		case slices.Contains(j.run.ends, id), b.Ends.Sub(j.before.Now) <= j.after.At.Sub(j.before.At):
		case !reads:
			j.fault("the hold of %s is over", id)
		case readers[id].Ends.Before(b.Ends), longer && !own:
			j.fault("the hold of %s ends at %v, it was to end at %v", id, readers[id].Ends, b.Ends)
		case a != b:
			j.fault("the hold of %s is %v, it was %v", id, a, b)
		case j.before.Holder.Fields["token"] != j.after.Holder.Fields["token"]:
			j.fault("the token of those who read has changed")
		case j.after.Holder.TTL >= 0 && j.after.Holder.TTL < min(j.before.Holder.TTL-scripttest.Blur, b.Ends.Sub(j.after.Now)-scripttest.Blur):
			j.fault("the key ends before the hold of %s", id)
		}
	}
}

// ended checks that nothing is left of an id that was cancelled, whatever else is wrong.
func (j *judge) ended() {
	if !isCancel(j.run.op) {
		return
	}
	if id := j.run.own[0]; j.after.Waits(id) || j.after.Has(id) {
		j.fault("%s is not cancelled", id)
	}
}

// granted checks a hold that the run has made and that excludes others: who may have it, and its token.
func (j *judge) granted() {
	b, a := j.before, j.after
	id := a.HolderID()
	if !a.Holder.Exists() || id == "" || b.Holder.Exists() && b.HolderID() == id || id == "-" {
		return
	}
	if !b.Waits(id) && id != j.run.request {
		j.fault("%q got the lock without a request", id)
	}
	for other, score := range b.Queue.Fields {
		place, err := strconv.ParseFloat(score, 64)
		isBehind := err == nil && id == j.run.request && j.run.place > 0 && j.run.place <= place
		if !b.Waits(id) && !isBehind && !j.hasPlace() && j.isReachable(other) && !slices.Contains(j.run.ends, other) {
			j.fault("%q got the lock while %q waits for it", id, other)
		}
	}
	token, ok := a.Holder.Digits("token")
	tokens, several := a.Holder.Digits("tokens")
	last, isCounter := a.Counter()
	was, wasCounter := b.Counter()
	switch {
	case !ok || !isCounter || !wasCounter:
		j.fault("a grant without a token")
	case token <= was || token <= j.given:
		j.fault("token %d after %d", token, max(was, j.given))
	case token > last || several && token+tokens-1 > last:
		j.fault("token %d is above the counter", token)
	}
}

// hasPlace reports whether the request has a kept place.
func (j *judge) hasPlace() bool {
	place, ok := j.before.Kept.Digits("")
	return ok && place != 0 && strings.HasPrefix(j.run.text, "keep")
}

// isLive reports whether the id of a ticket waited before the run, and was seen not long ago.
func (j *judge) isLive(id string) bool {
	age, ok := j.unseen(id)
	return ok && age < script.DeadAfter-scripttest.Blur
}

// isReachable reports whether it may learn of a grant, as far as the scripts know.
func (j *judge) isReachable(id string) bool {
	age, _ := j.unseen(id)
	subscribed := strings.HasPrefix(j.before.Alive.Fields[j.inboxOf(id)], "+") // and nobody listens
	return j.isLive(id) && !(subscribed && age >= script.BeatInterval-scripttest.Blur)
}

// inboxOf is the inbox that a ticket names.
func (j *judge) inboxOf(id string) string {
	fields := append(strings.Fields(j.before.Tickets.Fields[id]), "", "", "", "")
	return fields[3]
}

// unseen is how long ago the process of a ticket was seen.
func (j *judge) unseen(id string) (age time.Duration, ok bool) {
	tickets := &j.before.Tickets
	fields := strings.Fields(tickets.Fields[id])
	if tickets.IsStrange() || len(fields) < 6 {
		return 0, false
	}
	_, isNumber := scripttest.Digits(fields[2])
	if j.before.Alive.IsStrange() {
		return 0, isNumber
	}
	at, _, _ := strings.Cut(fields[5], "*")
	queued, isTime := scripttest.Digits(at)
	seen, beats := scripttest.Digits(strings.TrimLeft(j.before.Alive.Fields[fields[3]], "+-"))
	if queued/1000 > j.before.Now.UnixMilli() {
		queued = 0
	}
	age = j.before.Now.Sub(time.UnixMilli(max(seen, queued/1000))).Round(time.Millisecond)
	return age, isNumber && (isTime || beats) && age >= 0
}
