package inproc

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A keptPlace is a place in the queue to which a later call of the same name can return.
type keptPlace struct {
	place int64
	until time.Time   // zero while a call waits there
	timer *time.Timer // fires at until
}

func (p *keptPlace) isOver() bool { return !p.until.IsZero() && !time.Now().Before(p.until) }

// placeOf returns the place that was kept for r, or otherwise a place at the end of the queue.
func (e *entry) placeOf(r *core.Request) int64 {
	if p := e.places[r.Place]; p != nil && !p.isOver() {
		return p.place
	}
	e.last++
	return e.last
}

// occupyPlace records that a call waits in a place, which is kept at least as long as the call waits.
func (e *entry) occupyPlace(name string, place int64) *keptPlace {
	p := e.places[name]
	if p == nil {
		if e.places == nil {
			e.places = make(map[string]*keptPlace)
		}
		p = &keptPlace{}
		e.places[name] = p
	}
	p.place, p.until = place, time.Time{}
	return p
}

// keepPlace keeps the place of r, whose call has ended, for as long as r asks.
func (l *Locks) keepPlace(e *entry, r *core.Request, place int64) {
	if r.Place == "" {
		return
	}
	p := e.occupyPlace(r.Place, place)
	p.until = time.Now().Add(r.KeepPlace)
	if p.timer == nil {
		p.timer = time.AfterFunc(r.KeepPlace, func() { l.expirePlace(e, r.Place, p) })
	} else {
		p.timer.Reset(r.KeepPlace)
	}
}

// expirePlace ends a kept place that has expired. In the meantime it may have been used, or kept again.
func (l *Locks) expirePlace(e *entry, name string, p *keptPlace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.places[name] == p && p.isOver() {
		delete(e.places, name)
		l.grantNext(e)
	}
}

// endPlace ends the kept place of a hold that is released or lost.
func (e *entry) endPlace(name string) {
	p := e.places[name]
	if p == nil {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	delete(e.places, name)
}
