package engine

import (
	"slices"
	"strings"
)

// letIn checks the holds for reading that the run has made.
func (j *judge) letIn() {
	b, a := j.before, j.after
	was := b.readers()
	isNew := false
	for id := range a.readers() {
		if _, read := was[id]; read || strings.HasPrefix(id, "-") || j.visited && j.isField(id) {
			continue // one that has gone may keep the key taken for a while
		}
		isNew = true
		_, waited := b.crowd.fields[id]
		downgraded := j.run.script == j.scripts.downgrade && b.holds() == id
		if !waited && id != j.run.asks && !downgraded {
			j.fault("%q got to read without having asked for it", id)
		}
		for _, writer := range b.writers() {
			if !waited && !downgraded && j.isLive(writer) && !slices.Contains(j.run.ends, writer) && !j.endsWriting() {
				j.fault("%q got to read while %q waits to write", id, writer)
			}
		}
	}
	if !isNew || j.visited {
		return
	}
	token, ok := a.holder.whole("token")
	last, isCounter := a.counter()
	if !ok || !isCounter || token < 1 || token < j.written || token > last && !b.isRead() {
		j.fault("readers have token %d, a writer had %d, the counter is %d", token, j.written, last)
	}
}

// endsWriting reports whether the run may end a hold that excludes others.
func (j *judge) endsWriting() bool {
	return j.before.holds() != "" && slices.Contains(j.run.ends, j.before.holds())
}

// turns checks whose turn it is: after writing that of all who wait to read, after reading that of a writer,
// and with nobody waiting to write that of all who wait.
func (j *judge) turns() {
	b, a := j.before, j.after
	_, isCounter := b.counter()
	_, begun := b.tickets.fields["#admit"]
	if j.visited || !isCounter || begun || a.holds() == "-" {
		return
	}
	var readers, writers []string // of those that wait, for certain
	for _, id := range b.crowd.inOrder() {
		if j.isReachable(id) && !slices.Contains(j.run.ends, id) {
			readers = append(readers, id)
		}
	}
	live := false
	for _, id := range b.writers() {
		if !slices.Contains(j.run.ends, id) {
			if _, ok := j.unseen(id); ok {
				live = true
			}
			if j.isReachable(id) {
				writers = append(writers, id)
			}
		}
	}
	letsIn := j.run.script == j.scripts.downgrade && j.endsWriting()
	switch {
	case j.run.script == j.scripts.renew, j.run.script == j.scripts.downgrade && !letsIn:
	case j.endsWriting() && a.holds() != b.holds(), letsIn:
		for _, id := range readers {
			if !a.has(id) {
				j.fault("the writer has gone, and %q waits to read", id)
			}
		}
	case j.endsReading() && len(writers) > 0:
		if !slices.Contains(b.writers(), a.holds()) && !(a.holds() == j.run.asks && j.run.place > 0) {
			j.fault("the readers have gone, and %q waits to write", writers)
		}
	case len(b.readers()) > 0 && len(a.readers()) > 0 && !live && len(a.writers()) == 0 && j.run.script != j.scripts.release:
		for _, id := range readers {
			if !a.has(id) {
				j.fault("nobody waits to write, and %q waits to read", id)
			}
		}
	}
}

// endsReading reports whether the run has ended the last hold for reading.
func (j *judge) endsReading() bool {
	for id := range j.before.readers() {
		if !slices.Contains(j.run.ends, id) {
			return false
		}
	}
	return len(j.before.readers()) > 0 && j.run.script != j.scripts.downgrade && !j.lingers()
}

func (j *judge) lingers() bool {
	return j.run.script == j.scripts.release && len(j.run.args) > 1 && j.run.args[1] == any(int64(60_000))
}
