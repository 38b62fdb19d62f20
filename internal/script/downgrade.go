package script

import (
	"context"

	"github.com/lockmw/go/internal/transport"
)

// A Downgrade turns a write hold into a read hold with the same id, and admits waiting readers. A repeated execution does no
// harm.
type Downgrade struct {
	Keys *KeySet
	ID   *ID
}

// Call prepares one execution. done is called once, with the answer.
func (d *Downgrade) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.downgrade, 5+1, done)
	k.AddKeys(d.Keys.six[:]...)
	k.Add(d.ID.String())
	return k
}
