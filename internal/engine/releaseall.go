package engine

import (
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// ReleaseAll implements core.ManyLocks: plain releases of locks in one slot go out as one run (rule 23 of
// docs/protocol.md), and all others at the same time.
func (e *Engine) ReleaseAll(holds []core.Hold, patience time.Duration) []core.Released {
	results := make([]core.Released, len(holds))
	releases := make([]*release, len(holds))
	var calls []*transport.Call
	var plain map[*slot][]*release
	for i := range holds {
		var r *release
		results[i].Waiters, r, results[i].Err = holds[i].(*hold).beginRelease(patience)
		releases[i] = r
		switch {
		case r == nil:
		case e.sender.Mixes() && r.isPlain():
			if plain == nil {
				plain = make(map[*slot][]*release)
			}
			plain[r.l.c.slot] = append(plain[r.l.c.slot], r)
		default:
			calls = append(calls, r.call(r.begun))
		}
	}
	for _, rs := range plain {
		for part := range slices.Chunk(rs, core.MaxTogether) {
			calls = append(calls, e.callForAll(part))
		}
	}
	for i, k := range calls {
		if i < len(calls)-1 {
			e.sender.Start(k)
		} else {
			e.sendRelease(k, patience) // in this goroutine
		}
	}
	for i, r := range releases {
		if r != nil {
			results[i].Err = r.await(patience)
		}
	}
	return results
}

// isPlain reports whether release_batch.lua can do it.
func (r *release) isPlain() bool {
	return r.place == "" && r.lingers.IsZero() && len(r.served) == 0 && !r.l.isRead() && !r.l.c.isPermit() && !r.l.id.Copied()
}

// callForAll prepares one run for plain releases of locks in one slot.
func (e *Engine) callForAll(rs []*release) *transport.Call {
	if len(rs) == 1 {
		return rs[0].call(rs[0].begun)
	}
	all := script.ReleaseAll{Locks: make([]script.IDOf, len(rs))}
	for i, r := range rs {
		all.Locks[i] = script.IDOf{Keys: &r.l.c.keys, ID: r.l.id}
	}
	k := all.Call(e.sender.Context(), e.scripts, func(reply *transport.Reply) {
		for i, answer := range all.Answers(reply) {
			if answer != nil {
				rs[i].onAnswer(answer)
			} else {
				rs[i].send()
			}
		}
	})
	k.Limit = max(rs[0].until.Sub(rs[0].begun), time.Millisecond)
	return k
}
