package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
)

// perform runs a script and checks what became of the lock.
func (s *stage) perform(r *run) {
	before := s.look()
	a, err := s.try(r.script, r.keys, r.args...)
	after := s.look()
	if time.Since(before.at) > time.Second {
		return // so busy a machine that leases may have run out in between
	}
	j := &judge{stage: s, run: r, before: before, after: after}
	if err != nil {
		j.refused(err)
	} else {
		got := r.read(a)
		if before.holder.fields["token"] == "0" {
			return // somebody else has written that
		}
		if a.err != nil || len(a.values) > 0 {
			j.fault("its answer is not understood: %v, %v left", a.err, a.values)
			return
		}
		j.said(got)
	}
	j.leftAlone()
	j.ended()
	j.granted()
	j.letIn()
	j.turns()
	if wrong := after.disorder(); !s.visited && len(wrong) > 0 {
		j.fault("%s", strings.Join(wrong, "\n"))
	}
	if last, ok := after.counter(); ok {
		s.given = max(s.given, last)
	}
	if token, ok := after.holder.whole("token"); ok && !after.isRead() && after.holds() != before.holds() {
		tokens, _ := after.holder.whole("tokens")
		s.written = max(s.written, token, token+tokens-1)
	}
}

// A judge knows what one run of a script may do.
type judge struct {
	*stage
	run           *run
	before, after *scene
}

func (j *judge) fault(format string, args ...any) {
	j.Helper()
	j.Errorf("%s: %s\nbefore: %v\nafter:  %v", j.run.text, fmt.Sprintf(format, args...), j.before, j.after)
}

// refused checks an error: of the documented kind, and if it is acquire.lua's without a trace, as
// nobody is going to cancel the id.
func (j *judge) refused(err error) {
	if last, _ := j.before.counter(); last > maxToken-maxLines {
		return // there are no more tokens
	}
	isOurs := j.before.isRead() || !slices.ContainsFunc(j.run.ends, j.isField)
	if isOurs && !strings.Contains(err.Error(), "WRONGTYPE") { // miniredis puts something before it
		j.fault("it failed: %v", err)
	}
	if len(j.run.ends) > 0 && j.run.asks == "" {
		return // what can be ended is
	}
	parts := j.before.parts()
	for name, a := range j.after.parts() {
		if name == "holder" && j.before.isRead() {
			continue // those whose time is over are taken out; leftAlone sees to the others
		}
		if !parts[name].same(a) {
			j.fault("it failed after its first write: %v", err)
			return
		}
	}
}

// said checks that an answer is true.
func (j *judge) said(got answer) {
	switch j.run.script {
	case j.scripts.acquire:
		j.saidOf(j.run.asks, got)
	case j.scripts.poll:
		if len(got.ids) != len(j.run.own) {
			j.fault("it says something of %d ids", len(got.ids))
			return
		}
		for i, id := range got.ids {
			j.saidOf(j.run.own[i], id)
		}
	case j.scripts.renew, j.scripts.release, j.scripts.downgrade:
		id := j.run.own[0]
		isField := j.isField(id)
		if j.before.has(id) != (got.kind == 1) && !(isField && (j.visited || j.run.script == j.scripts.release)) {
			j.fault("it answered %d", got.kind)
		}
		if _, reads := j.after.readers()[id]; j.run.script == j.scripts.downgrade && got.kind == 1 && !reads && j.before.holder.ttl > 0 {
			j.fault("it says that %s reads", id)
		}
	}
	if last, ok := j.after.counter(); got.stamp >= 0 && (!ok || last != got.stamp) || got.stamp < -1 {
		j.fault("it says that the counter is %d", got.stamp)
	}
}

// isField reports whether the holder's hash has something of an id, which may be over or make no sense.
func (j *judge) isField(id string) bool {
	_, reads := j.before.holder.fields["reader:"+id]
	return reads || id != "" && j.before.holder.fields["id"] == id
}

func (j *judge) saidOf(id string, got answer) {
	token, _ := j.after.holder.whole("token")
	switch {
	case got.kind == 1 && (!j.after.has(id) || token != got.token):
		j.fault("it says that %s has the lock with token %d", id, got.token)
	case got.kind == 1 && j.run.asks == id && j.after.isRead() && j.after.readers()[id].ends.Sub(j.after.now) < askedLease-time.Second:
		j.fault("it says that %s reads for %v", id, askedLease)
	case got.kind != 1 && j.after.has(id) && !(j.visited && j.after.waits(id)): // somebody has put it there
		j.fault("it does not say that %s has the lock", id)
	case got.kind == 0 && !j.after.waits(id) && !strings.HasPrefix(j.run.text, "try") && !(j.visited && j.before.waits(id)):
		j.fault("it says that %s is queued", id)
	}
}

// leftAlone checks that what is not ours, and others' holds, are as they were.
func (j *judge) leftAlone() {
	parts := j.after.parts()
	for name, b := range j.before.parts() {
		if a := parts[name]; b.isStrange() && (!b.same(a) || b.ttl < 0 && a.ttl >= 0) {
			j.fault("a stranger's %s was changed", name)
		}
	}
	if _, ok := j.before.counter(); !ok && !j.before.fence.same(&j.after.fence) {
		j.fault("a counter that is none was changed")
	}
	if _, ok := j.after.counter(); !ok && !j.before.fence.same(&j.after.fence) {
		j.fault("the counter is none any more")
	}
	if isNone := strings.Trim(j.before.kept.fields[""], "0123456789") != ""; isNone && !j.before.kept.same(&j.after.kept) {
		j.fault("a kept place that is none was changed")
	}
	if j.before.isRead() {
		j.readersLeftAlone()
		return
	}
	b, a := &j.before.holder, &j.after.holder
	switch {
	case !b.exists() || b.isStrange(), b.ttl >= 0 && b.ttl <= j.after.at.Sub(j.before.at):
	case slices.ContainsFunc(j.run.ends, j.isField), b.fields["mode"] == core.Read.String() && slices.ContainsFunc(j.run.own, j.isField):
	case !b.same(a, "wanted"), b.ttl < 0 && a.ttl >= 0 && !slices.Contains(j.run.own, b.fields["id"]):
		j.fault("another's hold was changed")
	}
}

// readersLeftAlone checks that those who read go on as they did, and for at least as long.
func (j *judge) readersLeftAlone() {
	readers := j.after.readers()
	for id, b := range j.before.readers() {
		a, reads := readers[id]
		own := slices.Contains(j.run.own, id)
		longer := a.ends.After(b.ends)
		a.ends = b.ends
		switch {
		case id != "" && id[0] == '-': // one that has gone keeps the key taken for a while
		case slices.Contains(j.run.ends, id), b.ends.Sub(j.before.now) <= j.after.at.Sub(j.before.at):
		case !reads:
			j.fault("the hold of %s is over", id)
		case readers[id].ends.Before(b.ends), longer && !own:
			j.fault("the hold of %s ends at %v, it was to end at %v", id, readers[id].ends, b.ends)
		case a != b:
			j.fault("the hold of %s is %v, it was %v", id, a, b)
		case j.before.holder.fields["token"] != j.after.holder.fields["token"]:
			j.fault("the token of those who read has changed")
		case j.after.holder.ttl >= 0 && j.after.holder.ttl < min(j.before.holder.ttl-blur, b.ends.Sub(j.after.now)-blur):
			j.fault("the key ends before the hold of %s", id)
		}
	}
}

// ended checks that nothing is left of an id that was cancelled, whatever else is wrong.
func (j *judge) ended() {
	if j.run.script != j.scripts.cancel {
		return
	}
	if id := j.run.own[0]; j.after.waits(id) || j.after.has(id) {
		j.fault("%s is not cancelled", id)
	}
}

// granted checks a hold that the run has made and that excludes others: who may have it, and its token.
func (j *judge) granted() {
	b, a := j.before, j.after
	id := a.holds()
	if !a.holder.exists() || id == "" || b.holder.exists() && b.holds() == id || id == "-" {
		return
	}
	if !b.waits(id) && id != j.run.asks {
		j.fault("%q got the lock without having asked for it", id)
	}
	for other, score := range b.queue.fields {
		place, err := strconv.ParseFloat(score, 64)
		isBehind := err == nil && id == j.run.asks && j.run.place > 0 && j.run.place <= place
		if !b.waits(id) && !isBehind && !j.hasPlace() && j.isReachable(other) && !slices.Contains(j.run.ends, other) {
			j.fault("%q got the lock while %q waits for it", id, other)
		}
	}
	token, ok := a.holder.whole("token")
	tokens, several := a.holder.whole("tokens")
	last, isCounter := a.counter()
	was, wasCounter := b.counter()
	switch {
	case !ok || !isCounter || !wasCounter:
		j.fault("a grant without a token")
	case token <= was || token <= j.given:
		j.fault("token %d after %d", token, max(was, j.given))
	case token > last || several && token+tokens-1 > last:
		j.fault("token %d is above the counter", token)
	}
}

// hasPlace reports whether who asks has a place that is kept.
func (j *judge) hasPlace() bool {
	place, ok := j.before.kept.whole("")
	return ok && place != 0 && strings.HasPrefix(j.run.text, "keep")
}

// isLive reports whether the id of a ticket waited before the run, and was seen not long ago.
func (j *judge) isLive(id string) bool {
	age, ok := j.unseen(id)
	return ok && age < 2*pollInterval
}

// isReachable reports whether it may be told of a grant, as far as the scripts know.
func (j *judge) isReachable(id string) bool {
	age, _ := j.unseen(id)
	subscribed := strings.HasPrefix(j.before.tickets.fields["@"+id], "+") // and nobody listens
	return j.isLive(id) && !(subscribed && age >= pollInterval-blur)
}

// unseen is how long ago the ticket of an id was seen.
func (j *judge) unseen(id string) (age time.Duration, ok bool) {
	tickets := &j.before.tickets
	fields := strings.Fields(tickets.fields[id])
	if tickets.isStrange() || len(fields) < 6 {
		return 0, false
	}
	_, isNumber := wholeNumber(fields[2])
	seen, isTime := wholeNumber(strings.TrimLeft(tickets.fields["@"+id], "+-"))
	age = j.before.now.Sub(time.UnixMilli(seen)).Round(time.Millisecond)
	return age, isNumber && isTime && age >= 0
}
