package script

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// A Disown ends all that a process has at a key: holds and tickets whose ids have a number up to UpTo, but for those in use.
// It is harmless when repeated.
type Disown struct {
	Keys   *KeySet
	Stem   IDStem
	UpTo   uint64
	InUse  []uint64 // the numbers of ids that stay
	Permit bool     // the key is a semaphore's
}

// Call prepares a run. done is called once, with the answer, which CancelAnswer reads.
func (d *Disown) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := callOf(ctx, s.of(d.Permit).disown, d.Keys, d.Permit, 2+len(d.InUse), done)
	k.Add(string(d.Stem), d.UpTo)
	for _, n := range d.InUse {
		k.Add(d.Stem.New(n).String())
	}
	return k
}
