package script

import (
	"context"
	"time"
)

// A Tell notes how many calls of its own process wait behind a hold, and since when, for who inspects the lock. It is harmless
// when repeated, and when it comes late.
type Tell struct {
	Keys   *KeySet
	ID     *ID
	Calls  int
	Waited time.Duration // the first of them, with 0 for a short time
	Number int           // of the run among those for this hold, from 1 on
}

// Call prepares a run. done is called once, with the answer.
func (t *Tell) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	k := newCall(ctx, s.tell, 1+4, done)
	k.addKey(t.Keys.Holder())
	k.add(t.ID.String(), t.Calls, t.Number, t.Waited.Milliseconds())
	return k
}

// Told reads the answer to a Tell: Done or NotHeld.
func (r *Reply) Told() (Outcome, error) { return r.ended() }
