package script

import (
	"context"
	"time"
)

// A Renew renews the lease of one hold. It never shortens it.
type Renew struct {
	Keys  *KeySet
	ID    *ID
	Lease time.Duration

	Permit bool // of a semaphore
}

// Call prepares a run. done is called once, with the answer.
func (n *Renew) Call(ctx context.Context, s *Set, done func(*Reply)) *Call {
	run := s.renew
	if n.Permit {
		run = s.permit.renew
	}
	k := newCall(ctx, run, 1+2, done)
	k.addKey(n.Keys.Holder())
	k.add(n.ID.String(), roundUp(n.Lease))
	return k
}

// roundUp returns d in milliseconds, the next greater one if it is not whole.
func roundUp(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// A Renewed is the answer to a Renew.
type Renewed struct {
	Outcome   Outcome // Done or NotHeld
	Contended bool    // others wait for the lock
}

// Renewed reads the answer to a Renew.
func (r *Reply) Renewed() (Renewed, error) {
	code := r.int()
	switch {
	case r.Err != nil:
		return Renewed{}, r.Err
	case code == 0:
		return Renewed{Outcome: NotHeld}, nil
	}
	return Renewed{Outcome: Done, Contended: code == 2}, nil
}
