package script

import (
	"context"
	"strconv"

	"github.com/lockmw/go/internal/transport"
)

// A Force takes a lock or permit away from one holder, and grants it to the next ticket.
type Force struct {
	Keys  *KeySet
	Token int64 // of the hold
	Owner string

	Permit bool // of a semaphore
}

// Call prepares one execution. done is called once, with the answer.
func (f *Force) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := callOf(ctx, s.of(f.Permit).force, f.Keys, f.Permit, 2, done)
	k.Add(strconv.FormatInt(f.Token, 10), f.Owner)
	return k
}
