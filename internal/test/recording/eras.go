package recording

import (
	"slices"

	"github.com/lockmw/go/lockmw"
)

// Reading marks a Locker whose holds are read locks, so that the Recorder lets them overlap.
func Reading(l lockmw.Locker) lockmw.Locker { return reading{l} }

type reading struct{ lockmw.Locker }

// Reads is the method that the function Reads looks for.
func (reading) Reads() bool { return true }

// Reads reports whether the holds of l are read locks.
func Reads(l lockmw.Locker) bool {
	side, ok := l.(interface{ Reads() bool })
	return ok && side.Reads()
}

// A record is the state of one key.
type record struct {
	eras   []era
	tokens tokens
	grants int
}

func (r *Recorder) record(key string) *record {
	k := r.keys[key]
	if k == nil {
		k = &record{}
		r.keys[key] = k
	}
	return k
}

// tokens are the tokens granted so far.
type tokens struct {
	last    int64 // the greatest
	written int64 // the greatest of a write hold
}

func (t *tokens) add(token int64, reads bool) {
	t.last = max(t.last, token)
	if !reads {
		t.written = max(t.written, token)
	}
}

// before returns the token that the next hold's token must follow.
func (t *tokens) before(reads bool) int64 {
	if reads {
		return t.written
	}
	return t.last
}

// An era is the time between two losses of the server's data. The token of a hold tells its era.
type era struct {
	holders []*Held // one writer, or readers
	tokens  tokens
}

func (r *Recorder) era(k *record, token int64) *era {
	n := r.spans.Era(token)
	for len(k.eras) <= n {
		k.eras = append(k.eras, era{})
	}
	return &k.eras[n]
}

// excluded returns the holders that must have ended when h is granted.
func (e *era) excluded(h *Held) []*Held {
	if h.Reads && len(e.holders) > 0 && e.holders[0].Reads {
		return nil
	}
	return e.holders
}

// enter adds h to the holders and removes the holders that it excludes.
func (e *era) enter(h *Held) {
	if len(e.excluded(h)) > 0 {
		e.holders = nil
	}
	e.holders = append(e.holders, h)
}

func (e *era) leave(h *Held) {
	e.holders = slices.DeleteFunc(e.holders, func(other *Held) bool { return other == h })
}
