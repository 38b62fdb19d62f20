package script_test

import (
	"slices"
	"strings"

	"github.com/lockmw/go/internal/script"
)

// admitted checks the holds for reading that the run has made.
func (j *judge) admitted() {
	b, a := j.before, j.after
	was := b.Readers()
	isNew := false
	for id := range a.Readers() {
		if _, read := was[id]; read || strings.HasPrefix(id, "-") || j.visited && j.isField(id) {
			continue // one that has gone may keep the key taken for a while
		}
		isNew = true
		_, waited := b.ReadQueue.Fields[id]
		downgraded := isDowngrade(j.run.op) && b.HolderID() == id
		if !waited && id != j.run.request && !downgraded {
			j.fault("%q got to read without a request", id)
		}
		for _, writer := range b.Writers() {
			if !waited && !downgraded && j.isLive(writer) && !slices.Contains(j.run.ends, writer) && !j.endsWriting() {
				j.fault("%q got to read while %q waits to write", id, writer)
			}
		}
	}
	if !isNew || j.visited {
		return
	}
	token, ok := a.Holder.Digits("token")
	last, isCounter := a.Counter()
	if !ok || !isCounter || token < 1 || token < j.written || token > last && !b.IsRead() {
		j.fault("readers have token %d, a writer had %d, the counter is %d", token, j.written, last)
	}
}

// endsWriting reports whether the run may end a hold that excludes others.
func (j *judge) endsWriting() bool {
	return j.before.HolderID() != "" && slices.Contains(j.run.ends, j.before.HolderID())
}

// turns checks whose turn it is: after writing that of all who wait to read, after reading that of a writer,
// and with nobody waiting to write that of all who wait.
func (j *judge) turns() {
	b, a := j.before, j.after
	_, isCounter := b.Counter()
	_, begun := b.Tickets.Fields["#admit"]
	if j.visited || !isCounter || begun || a.HolderID() == "-" {
		return
	}
	var readers, writers []string // of those that wait, for certain
	for _, id := range b.ReadQueue.InOrder() {
		if j.isReachable(id) && !slices.Contains(j.run.ends, id) {
			readers = append(readers, id)
		}
	}
	live := false
	for _, id := range b.Writers() {
		if !slices.Contains(j.run.ends, id) {
			if _, ok := j.unseen(id); ok {
				live = true
			}
			if j.isReachable(id) {
				writers = append(writers, id)
			}
		}
	}
	letsIn := isDowngrade(j.run.op) && j.endsWriting()
	switch {
	case isRenew(j.run.op), isDowngrade(j.run.op) && !letsIn:
	case j.endsWriting() && a.HolderID() != b.HolderID(), letsIn:
		for _, id := range readers {
			if !a.Has(id) {
				j.fault("the writer has gone, and %q waits to read", id)
			}
		}
	case j.endsReading() && len(writers) > 0:
		if !slices.Contains(b.Writers(), a.HolderID()) && !(a.HolderID() == j.run.request && j.run.place > 0) {
			j.fault("the readers have gone, and %q waits to write", writers)
		}
	case len(b.Readers()) > 0 && len(a.Readers()) > 0 && !live && len(a.Writers()) == 0 && !isRelease(j.run.op):
		for _, id := range readers {
			if !a.Has(id) {
				j.fault("nobody waits to write, and %q waits to read", id)
			}
		}
	}
}

// endsReading reports whether the run has ended the last hold for reading.
func (j *judge) endsReading() bool {
	for id := range j.before.Readers() {
		if !slices.Contains(j.run.ends, id) {
			return false
		}
	}
	return len(j.before.Readers()) > 0 && !isDowngrade(j.run.op) && !j.lingers()
}

func (j *judge) lingers() bool {
	op, ok := j.run.op.(*script.Release)
	return ok && op.Linger > 0
}
