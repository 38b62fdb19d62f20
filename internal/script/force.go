package script

import (
	"context"
	"strconv"
)

// A Force takes the lock away from one holder and grants it to the next ticket.
type Force struct {
	Keys  *KeySet
	Token int64 // of the hold
	Owner string

	Permit bool // of a semaphore
}

// Call prepares a run. done is called once, with the answer.
func (f *Force) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	var k *Call
	if f.Permit {
		k = permitCall(ctx, s.permit.force, f.Keys, 2, done)
	} else {
		k = newCall(ctx, s.force, 5+2, done)
		k.addKeys(f.Keys.five)
	}
	k.add(strconv.FormatInt(f.Token, 10), f.Owner)
	return k
}

// Forced reads the answer to a Force: Done, More or NotHeld.
func (r *Reply) Forced() (Outcome, error) { return r.ended() }
