package script

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// A Disown ends the holds and tickets that a process has at a key, for all ids with a number up to UpTo except the ids in use. A
// repeated execution does no harm.
type Disown struct {
	Keys   *KeySet
	Stem   IDStem
	UpTo   uint64
	InUse  []uint64 // numbers of ids that stay
	Permit bool     // of a semaphore
}

// Call prepares one execution. done is called once, with the answer.
func (d *Disown) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := callOf(ctx, s.of(d.Permit).disown, d.Keys, d.Permit, 2+len(d.InUse), done)
	k.Add(string(d.Stem), d.UpTo)
	for _, n := range d.InUse {
		k.Add(d.Stem.New(n).String())
	}
	return k
}
