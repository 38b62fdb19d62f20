package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A Cancel ends an id, whether it is queued, holds the lock, or its acquire has not arrived yet. A repeated execution does no
// harm.
type Cancel struct {
	Keys      *KeySet
	ID        string
	Mark      bool          // the id gets a done mark, and is refused from now on
	Place     string        // name of its kept place in the queue; "": none
	KeepPlace time.Duration // how long the place is kept from now on
	EndPlace  int64         // token of a lost hold whose kept place ends; 0: none
	Permit    bool          // of a semaphore
	Served    []string      // ids of its grant batch to which its hold was passed: they also end
	Run       string        // of the key's work, which the id may have begun: it becomes void; "": none
	Begun     int64         // the token of the record since the run has begun to work: only a later begin is void; 0: it has not
}

// Call prepares one execution. done is called once, with the answer.
func (c *Cancel) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	mark, keep := int64(0), c.KeepPlace.Milliseconds()
	if c.Mark {
		mark = doneMillis
	}
	if c.EndPlace != 0 {
		keep = -doneMillis
	}
	run := s.of(c.Permit).cancel
	if c.Run != "" {
		run = s.recordCancel
	}
	k := callOf(ctx, run, c.Keys, c.Permit, 3+6+len(c.Served), done)
	k.AddKeys(c.Keys.Done(c.ID))
	if keep != 0 {
		k.AddKeys(c.Keys.Kept(c.Place))
	}
	if c.Run != "" {
		k.AddKeys(c.Keys.Record())
		defer k.Add(c.Run, c.Begun)
	}
	k.Add(c.ID, mark, keep)
	if c.EndPlace != 0 || len(c.Served) > 0 {
		k.Add(c.EndPlace)
	}
	addServed(k, c.Served)
	return k
}
