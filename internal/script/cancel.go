package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A Cancel has the server forget an id, whether it is queued, holds the lock, or its acquire is still on
// the way. It is harmless when repeated.
type Cancel struct {
	Keys      *KeySet
	ID        string
	Mark      bool          // the id is refused from now on
	Place     string        // the name of its kept place in the queue; "": none
	KeepPlace time.Duration // how long the place is kept from now on
	EndPlace  int64         // the token of a hold whose place ends instead; 0: none
	Permit    bool          // it is for a permit of a semaphore
	Served    []string      // ids of its run to whom its hold was passed: they are forgotten, too
}

// Call prepares a run. done is called once, with the answer.
func (c *Cancel) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	mark, keep := int64(0), c.KeepPlace.Milliseconds()
	if c.Mark {
		mark = doneMillis
	}
	if c.EndPlace != 0 {
		keep = -doneMillis
	}
	k := callOf(ctx, s.of(c.Permit).cancel, c.Keys, c.Permit, 2+4+len(c.Served), done)
	k.AddKeys(c.Keys.Done(c.ID))
	if keep != 0 {
		k.AddKeys(c.Keys.Kept(c.Place))
	}
	k.Add(c.ID, mark, keep)
	if c.EndPlace != 0 || len(c.Served) > 0 {
		k.Add(c.EndPlace)
	}
	addServed(k, c.Served)
	return k
}

// CancelAnswer reads the answer to a Cancel: Done or More.
func CancelAnswer(r *transport.Reply) (Outcome, error) { return readEnded(r) }
