package lockmw

import (
	"context"
	"log/slog"
	"time"
	"weak"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A lock is forgotten if it was not unlocked and no reference to its holds or their contexts is left: then it cannot be
// unlocked. The garbage collector can only find that if the implementation of locks does not keep the holds alive. It refers
// to the heldLock, so at the first renewal the heldLock replaces its references to the holds by a weak pointer to one of
// them; the holds are linked to one another. Until then it keeps the references, because most holds are shorter and should
// cost nothing. Any use of a hold restores the references until the next renewal.
//
// A context that derives from a hold's context refers to the hold. But some derived contexts are themselves referred to only
// by the hold's context: those of context.AfterFunc, and those of which only the Done channel is used. So the cancel
// functions of the holds' contexts are kept while the references are weak. They refer to the derived contexts until those are
// cancelled, and so to the hold. The Done channel of the hold's own context refers to nothing. A goroutine that waits only
// for that channel does not keep the hold, and sees its loss.

// weakHolds replaces a heldLock's references to its holds.
type weakHolds struct {
	first weak.Pointer[Hold]
	ends  []context.CancelCauseFunc // of the contexts that were waited for or derived from
}

// hasHolds reports whether there are holds that were not unlocked. l.mu is held.
func (l *heldLock) hasHolds() bool { return !l.holds.IsEmpty() || l.weak != nil }

// restore restores the references to the holds, unless they are forgotten. l.mu is held.
func (l *heldLock) restore() {
	if l.weak == nil {
		return
	}
	if first := l.weak.first.Value(); first != nil {
		l.holds, l.weak = list.From(first), nil
	}
}

// lockedRestore locks l.mu and calls restore.
func (l *heldLock) lockedRestore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restore()
}

// IsForgotten implements core.Events.
func (l *heldLock) IsForgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.weak != nil {
		return l.weak.first.Value() == nil
	}
	w := &weakHolds{first: weak.Make(l.holds.First())}
	for h := range l.holds.All() {
		if !h.ctx.mu.TryLock() { // the context is in use, and its user may be waiting for l.mu
			return false
		}
		if h.ctx.cancel != nil {
			w.ends = append(w.ends, h.ctx.cancel)
		}
		h.ctx.mu.Unlock()
	}
	if !l.holds.IsEmpty() { // otherwise the last one is being unlocked
		l.holds, l.weak = list.List[*Hold]{}, w
	}
	return false
}

// Forgotten implements core.Events.
func (l *heldLock) Forgotten(h core.LocalHold, ends time.Time) {
	missed, ok := l.locker.lines.Allow("forgotten")
	if !ok {
		return
	}
	args := append([]any{slog.String("key", l.req.Key), slog.Time("ends", ends), slog.Int("suppressed", missed)}, l.describe(h)...)
	l.locker.Logger().Warn("lockmw: a hold was forgotten: the program dropped it and its context without Unlock; it is no longer renewed and expires with its lease", args...)
}
