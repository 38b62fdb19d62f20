package script

import "context"

// A Downgrade makes a write hold a read hold with the same id, and admits waiting readers. It is
// harmless when repeated.
type Downgrade struct {
	Keys *KeySet
	ID   *ID
}

// Call prepares a run. done is called once, with the answer.
func (d *Downgrade) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	k := newCall(ctx, s.downgrade, 5+1, done)
	k.addKeys(d.Keys.five)
	k.add(d.ID.String())
	return k
}

// Downgraded reads the answer to a Downgrade: Done, More or NotHeld.
func (r *Reply) Downgraded() (Outcome, error) { return r.ended() }
