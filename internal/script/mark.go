package script

import (
	"context"

	"github.com/lockmw/go/internal/core"
)

// A Mark notes that a tick of a job was run. It is harmless when repeated, and when it comes late.
type Mark struct {
	Keys  *KeySet
	Token int64 // of the hold that has run it
	Tick  core.Tick
}

// Call prepares a run. done is called once, with the answer.
func (m *Mark) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	k := newCall(ctx, s.mark, 1+2, done)
	k.addKey(m.Keys.Tick(m.Tick.At))
	k.add(m.Token, roundUp(m.Tick.Keep))
	return k
}

// Marked reads the answer to a Mark. It reports whether a later hold has begun the tick.
func (r *Reply) Marked() (again bool, err error) {
	code := r.int()
	if r.Err == nil && code != 1 && code != 2 {
		r.strange()
	}
	return code == 2, r.Err
}
