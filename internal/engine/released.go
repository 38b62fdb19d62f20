package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
)

// A lockKey is a key, and whether its permits are meant: those have a queue of their own.
type lockKey struct {
	key    string
	permit bool
}

func (c *cohort) lockKey() lockKey { return lockKey{c.key, c.isPermit()} }

// released is the keys of a shard at which something of this process has ended lately: it was released, passed on or cancelled.
// A busy key has one entry. The shard's mutex guards it.
type released struct {
	keys  map[lockKey]*releasedKey
	order list.List[*releasedKey] // the one that ended first to begin with
}

// A releasedKey says that ids of this process at a key have ended.
type releasedKey struct {
	list.Links[*releasedKey]

	lockKey
	upTo uint64        // the greatest number of these ids
	at   clock.Instant // when the last one ended
}

const (
	// maxReleased is how many keys of a shard are known. The shards are not equally full: of 8,192 keys a shard gets
	// 128 on average, and practically never twice as many. Each key takes about 130 bytes.
	maxReleased = 256
	// releaseLost is for how long a release may be lost: replicas lag behind, and then it takes some time until it is seen
	// that the master is away.
	releaseLost = 15 * time.Second
)

// note notes that an id of a key has ended.
func (r *released) note(k lockKey, id uint64, now clock.Instant) {
	one := r.keys[k]
	if one == nil {
		one = r.add(k, now)
	} else {
		r.order.Remove(one)
	}
	one.upTo, one.at = max(one.upTo, id), now
	r.order.Push(one)
}

// add returns a new entry, which is not in the order yet.
func (r *released) add(k lockKey, now clock.Instant) *releasedKey {
	one := new(releasedKey)
	if len(r.keys) == maxReleased || r.hasOld(now) {
		one = r.order.First() // its memory is used again
		r.remove(one)
		r.forgetOld(now)
	}
	if r.keys == nil {
		r.keys = make(map[lockKey]*releasedKey)
	}
	one.lockKey, one.upTo = k, 0
	r.keys[k] = one
	return one
}

// hasOld reports whether the first entry is too old to matter.
func (r *released) hasOld(now clock.Instant) bool {
	return !r.order.IsEmpty() && now.Sub(r.order.First().at) >= releaseLost
}

func (r *released) remove(one *releasedKey) {
	r.order.Remove(one)
	delete(r.keys, one.lockKey)
}

// forgetOld forgets what is too old to matter.
func (r *released) forgetOld(now clock.Instant) {
	for r.hasOld(now) {
		r.remove(r.order.First())
	}
	if r.order.IsEmpty() {
		r.keys = nil
	}
}

// endedAfter reports whether an id of a key may have ended after that.
func (r *released) endedAfter(k lockKey, then clock.Instant) bool {
	one := r.keys[k]
	return one != nil && one.at > then
}

// noteEnded notes that an id of a key has ended, as the server has confirmed.
func (e *Engine) noteEnded(k lockKey, id string) {
	n, ok := e.idStem.Number(id)
	if !ok {
		return
	}
	sh := e.shardOf(k.key)
	sh.mu.Lock()
	sh.released.note(k, n, clock.Now())
	sh.mu.Unlock()
}

// endedLately returns the keys at which something has ended lately.
func (e *Engine) endedLately() (all []releasedKey) {
	now := clock.Now()
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		sh.released.forgetOld(now)
		for one := range sh.released.order.All() {
			all = append(all, releasedKey{lockKey: one.lockKey, upTo: one.upTo})
		}
		sh.mu.Unlock()
	}
	return all
}

// repeatReleases has the server end all that has ended lately, as it may have lost that. What is in use stays: an id of this
// process is known for as long as it is, so one that is not known, and whose number was used, has ended.
func (e *Engine) repeatReleases() {
	ended := e.endedLately()
	if len(ended) == 0 {
		return
	}
	inUse := e.ids.inUse() // read after the numbers
	for i := range ended {
		one := &ended[i]
		e.disown(one.lockKey, one.upTo, inUse[one.lockKey], func() {})
	}
}

// disown has the server end what it has of this process at a key, up to a number, but for ids in use. then is called when it
// has.
func (e *Engine) disown(k lockKey, upTo uint64, inUse []uint64, then func()) {
	keys := e.layout.KeySet(k.key)
	run := &script.Disown{Keys: &keys, Stem: e.idStem, UpTo: upTo, Permit: k.permit}
	for _, n := range inUse {
		if n <= upTo {
			run.InUse = append(run.InUse, n)
		}
	}
	e.cancel(&cancellation{keys: keys, permit: k.permit, prepare: run.Call, confirmed: func(clock.Instant) { then() }}, releaseLost)
}
