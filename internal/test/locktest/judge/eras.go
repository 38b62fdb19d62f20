package judge

import (
	"slices"

	"github.com/lockmw/go/lockmw"
)

// Reading says of a Locker that its holds read: the Recorder lets them overlap each other.
func Reading(l lockmw.Locker) lockmw.Locker { return reading{l} }

type reading struct{ lockmw.Locker }

// Reads implements what reads looks for.
func (reading) Reads() bool { return true }

// Reads reports whether the holds of l read.
func Reads(l lockmw.Locker) bool {
	side, ok := l.(interface{ Reads() bool })
	return ok && side.Reads()
}

// A record is what is known of one key.
type record struct {
	eras   []era
	tokens tokens
	grants int
	spans  []*Span
}

func (r *Recorder) record(key string) *record {
	k := r.keys[key]
	if k == nil {
		k = &record{}
		r.keys[key] = k
	}
	return k
}

// Tokens are those that were granted.
type tokens struct {
	last    int64 // the greatest
	written int64 // the greatest of a hold that did not read when it was granted
}

func (t *tokens) add(token int64, reads bool) {
	t.last = max(t.last, token)
	if !reads {
		t.written = max(t.written, token)
	}
}

// before is the token that the next hold's is compared with.
func (t *tokens) before(reads bool) int64 {
	if reads {
		return t.written
	}
	return t.last
}

// follows reports whether a token may come after another one.
func follows(token, before int64, reads bool) bool { return token > before || reads && token == before }

// An era is the time between two losses of the server's memory. A token tells in which it was given.
type era struct {
	holders []*Held // one that excludes all others, or those that read
	tokens  tokens
}

func (r *Recorder) eraOf(token int64) int {
	n := 0
	for n < len(r.losses) && r.losses[n] <= token {
		n++
	}
	return n
}

func (r *Recorder) era(k *record, token int64) *era {
	n := r.eraOf(token)
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

// enter adds h to the holders, in place of those that it excludes.
func (e *era) enter(h *Held) {
	if len(e.excluded(h)) > 0 {
		e.holders = nil
	}
	e.holders = append(e.holders, h)
}

func (e *era) leave(h *Held) {
	e.holders = slices.DeleteFunc(e.holders, func(other *Held) bool { return other == h })
}
