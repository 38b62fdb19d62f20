package lockmw

import (
	"context"
	"log/slog"
	"time"
	"weak"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// A lock is forgotten if it was not unlocked and nothing refers to its holds or their contexts any more: then nobody
// can unlock it. The implementation of locks refers to the heldLock, so that must not refer to the holds. It does so
// until the first renewal, because most holds are shorter and are to cost nothing. Then the holds go out of sight: a weak
// pointer to one of them is left, and they are linked to one another. Whatever a hold is used for brings them back
// until the next renewal.
//
// Contexts that derive from a hold's refer to it, but some of them are referred to by the hold's own context only: those
// of context.AfterFunc, or whose channel is all that is waited for. So the ends of the holds' contexts are kept while
// these are out of sight. They refer to the contexts that derive from them, until those are cancelled, and so to the hold.
// The channel of the hold's own context refers to nothing. What waits for it alone does not keep the hold, and learns of
// its loss.

// unseen is what a heldLock has of its holds while they are out of sight.
type unseen struct {
	first weak.Pointer[Hold]
	ends  []context.CancelCauseFunc // of the contexts that were waited for or derived from
}

// hasHolds reports whether there are holds that are not unlocked. l.mu is held.
func (l *heldLock) hasHolds() bool { return !l.holds.IsEmpty() || l.unseen != nil }

// recall brings the holds back in sight, unless they are forgotten. l.mu is held.
func (l *heldLock) recall() {
	if l.unseen == nil {
		return
	}
	if first := l.unseen.first.Value(); first != nil {
		l.holds, l.unseen = list.From(first), nil
	}
}

// show is recall by one of the holds, whose context has an end now.
func (l *heldLock) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recall()
}

// IsForgotten implements core.Events.
func (l *heldLock) IsForgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unseen != nil {
		return l.unseen.first.Value() == nil
	}
	u := &unseen{first: weak.Make(l.holds.First())}
	for h := range l.holds.All() {
		if !h.ctx.mu.TryLock() { // the context is used, and may be waiting for l.mu
			return false
		}
		if h.ctx.cancel != nil {
			u.ends = append(u.ends, h.ctx.cancel)
		}
		h.ctx.mu.Unlock()
	}
	if !l.holds.IsEmpty() { // else the last one is being unlocked
		l.holds, l.unseen = list.List[*Hold]{}, u
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
	l.locker.Logger().Warn("lockmw: a hold was forgotten: nothing refers to it or to its context, so nobody can unlock it; it is not renewed, and ends with its lease", args...)
}
