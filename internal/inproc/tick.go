package inproc

import (
	"context"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
)

var _ core.TickHold = (*hold)(nil)

// A tickID identifies a tick of a job.
type tickID struct {
	key    string
	millis int64
}

// A tickNote is the record of a tick, kept for as long as a call may ask.
type tickNote struct {
	by    []int64 // tokens of the holds that have begun it, at most 2
	ran   bool
	until time.Time
}

func (h *hold) tickID(t core.Tick) tickID { return tickID{h.Req.Key, t.At.UnixMilli()} }

// BeginTick implements core.TickHold.
func (h *hold) BeginTick(_ context.Context, t core.Tick) (core.TickAnswer, time.Time, error) {
	l, now := h.locks, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := h.check(); err != nil {
		return core.TickOff, now, err
	}
	l.forgetTicks(now)
	n := l.ticks[h.tickID(t)]
	switch {
	case n != nil && n.ran:
		return core.TickRan, now, nil
	case now.Sub(t.At).Abs() > t.Within:
		return core.TickOff, now, nil
	case n == nil:
		n = l.noteTick(h.tickID(t))
	case len(n.by) == 2:
		return core.TickFailed, now, nil
	}
	n.by, n.until = append(n.by, h.Token()), now.Add(t.Keep)
	return core.TickBegun, now, nil
}

// MarkTick implements core.TickHold.
func (h *hold) MarkTick(_ context.Context, t core.Tick) (again bool, err error) {
	l := h.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.ticks[h.tickID(t)]
	if n == nil {
		n = l.noteTick(h.tickID(t))
	}
	n.ran, n.until = true, time.Now().Add(t.Keep)
	return slices.ContainsFunc(n.by, func(token int64) bool { return token > h.Token() }), nil
}

// noteTick creates the record of a tick; l.mu is held.
func (l *Locks) noteTick(id tickID) *tickNote {
	if l.ticks == nil {
		l.ticks = make(map[tickID]*tickNote)
	}
	n := &tickNote{}
	l.ticks[id] = n
	return n
}

// forgetTicks removes records that no call will ask for; l.mu is held.
func (l *Locks) forgetTicks(now time.Time) {
	for id, n := range l.ticks {
		if now.After(n.until) {
			delete(l.ticks, id)
		}
	}
}
