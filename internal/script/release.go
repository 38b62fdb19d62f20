package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// A Release ends one hold and grants the lock to the next ticket. A repeated execution does no harm.
type Release struct {
	Keys   *KeySet
	ID     *ID // also counts how often its release is written
	Read   bool
	Linger time.Duration   // how long the key stays taken; 0: not at all
	Mark   bool            // the id gets a done mark, because copies of its acquire may still arrive
	Place  string          // name of the kept place that ends with the hold; "": none
	Permit bool            // of a semaphore
	Served []string        // ids of its grant batch to which the hold was passed
	Record *core.RecordEnd // the run that ends with the hold; nil: none
}

// Call prepares one execution. done is called once, with the answer.
func (l *Release) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	plain := !l.Mark && l.Linger <= 0 && l.Place == "" && !l.Read && !l.Permit && len(l.Served) == 0
	size := 1
	if !plain {
		size = 2 + 4 + len(l.Served)
	}
	run := s.of(l.Permit).release
	if l.Record != nil {
		run, size = s.recordRelease, size+1+5
	}
	k := callOf(ctx, run, l.Keys, l.Permit, size, done)
	k.Copies = &l.ID.releases
	if plain && l.Record == nil {
		k.Batch = s.releases
	}
	if l.Mark || l.Place != "" {
		k.AddKeys(l.Keys.Done(l.ID.String()))
	}
	if l.Place != "" {
		k.AddKeys(l.Keys.Kept(l.Place))
	}
	if l.Record != nil {
		k.AddKeys(l.Keys.Record())
		defer addEnd(k, l.Record)
	}
	k.Add((*releaseID)(l.ID))
	if plain {
		return k
	}
	mark, place := int64(0), int64(0)
	if l.Mark {
		mark = doneMillis
	}
	if l.Place != "" {
		place = doneMillis
	}
	k.Add(transport.RoundUp(max(l.Linger, 0)), mark, place)
	addServed(k, l.Served)
	return k
}

// addServed adds ids of a grant batch as the last arguments.
func addServed(k *transport.Call, ids []string) {
	for _, id := range ids {
		k.Add(id)
	}
}

// Positions of the arguments of a plain release in a Call; release_batch.lua gets some of them.
const (
	releaseHolder = transport.FirstKey + iota
	releaseQueue
	_ // tickets
	_ // fencing counter
	_ // queue of readers
	_ // live processes
	releaseIDArg
)

func releaseBatch(s *transport.Script) *transport.Batch {
	return &transport.Batch{Script: s, Keys: []int{releaseHolder, releaseQueue}, Args: []int{releaseIDArg}}
}
