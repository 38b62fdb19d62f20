package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A Renew renews the lease of one hold, and never shortens it.
type Renew struct {
	Keys  *KeySet
	ID    *ID
	Lease time.Duration
}

// Call prepares one execution. done is called once, with the answer.
func (n *Renew) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.renew, 1+2, done)
	k.AddKeys(n.Keys.Holder())
	k.Add(n.ID.String(), transport.RoundUp(n.Lease))
	return k
}

// A Renewed is the answer to a Renew.
type Renewed struct {
	Outcome   Outcome // Done or NotHeld
	Contended bool    // tickets wait for the lock
}

// RenewAnswer reads the answer to a Renew.
func RenewAnswer(r *transport.Reply) (Renewed, error) {
	code := r.Int()
	switch {
	case r.Err != nil:
		return Renewed{}, r.Err
	case code == 0:
		return Renewed{Outcome: NotHeld}, nil
	}
	return Renewed{Outcome: Done, Contended: code == 2}, nil
}
