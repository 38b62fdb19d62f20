package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A recovery follows when an unreachable server answers again. It may be a different server, or the same one in an older state,
// which has lost its latest writes. All leases are renewed immediately, so that holders learn of a loss. Tickets are polled for.
// Recent ends are repeated, so that an ended hold does not keep a lock taken until its lease expires (rule 13 of
// docs/protocol.md).
type recovery struct {
	e           *Engine
	unreachable atomic.Bool // an answer was missing, and none has arrived since

	begun atomic.Int64 // the instant when the last recovery began; 0: never

	mu       sync.Mutex
	timer    timers.Timer
	planned  clock.Instant // when the timer fires; 0: not set
	last     clock.Instant // when leases were last renewed; 0: never
	replaced clock.Instant // when they were or will be renewed because a node was deposed; 0: never
}

// recoveryPause separates two recoveries, because one of several servers may be unreachable for long. It also separates two
// recoveries for deposed nodes, because nodes may disagree about which of them is deposed.
const recoveryPause = time.Second

func (y *recovery) init(e *Engine) {
	y.e = e
	y.timer.SetOwner(y)
	e.sender.Observe(y.note, y.deposed)
}

// note handles the outcome of a command.
func (y *recovery) note(err error) {
	switch {
	case isUnreachable(err):
		y.unreachable.Store(true)
	case y.unreachable.Load() && (err == nil || transport.IsReply(err) && !transport.IsFinal(err)) && y.unreachable.CompareAndSwap(true, false):
		y.plan()
	}
}

// ended handles the end of an id that the server has confirmed to a call sent at that time. If a recovery has begun since, it
// counted the id as in use, and a different server may have answered.
func (y *recovery) ended(sent clock.Instant) {
	if begun := y.begun.Load(); begun != 0 && sent < clock.Instant(begun) {
		y.plan()
	}
}

// deposed handles a node of a Cluster that is no longer a master. Another node has its slots.
func (y *recovery) deposed() {
	y.mu.Lock()
	if y.replaced <= clock.Now() { // otherwise one is already scheduled
		y.replaced = y.pauseAfter(y.replaced)
	}
	y.planAt(y.replaced)
	y.mu.Unlock()
	y.e.inboxes.FollowSlots()
}

// isUnreachable reports whether an error shows that the server is unreachable or was replaced. An answer that took longer than
// the caller had time shows nothing.
func isUnreachable(err error) bool {
	return transport.IsTemporary(err) && !transport.IsMoving(err) && !errors.Is(err, context.DeadlineExceeded) && !transport.IsPoolTimeout(err)
}

// plan schedules a recovery.
func (y *recovery) plan() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.planAt(y.pauseAfter(y.last))
}

// pauseAfter returns now, or the end of the pause after the last recovery if that is later.
func (y *recovery) pauseAfter(last clock.Instant) clock.Instant {
	now := clock.Now()
	if last == 0 {
		return now
	}
	return max(now, last.Add(recoveryPause))
}

// planAt schedules a recovery at that time, unless an earlier one is scheduled. The mutex is locked.
func (y *recovery) planAt(at clock.Instant) {
	if y.planned != 0 && y.planned <= at {
		return
	}
	y.planned = max(at, 1)
	y.e.schedule.Set(&y.timer, at, 0)
}

// Due begins the recovery.
func (y *recovery) Due() {
	e := y.e
	now := clock.Now()
	y.mu.Lock()
	y.last, y.planned = now, 0
	y.mu.Unlock()
	y.begun.Store(int64(now))
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		if !l.over {
			l.planRenewal(now)
		}
		l.c.shard.mu.Unlock()
	}
	e.eachQueued((*request).pollNow)
	e.repeatReleases()
}

// A lockKey is a key with its queue: permits have a queue of their own.
type lockKey struct {
	key    string
	permit bool
}

func (c *cohort) lockKey() lockKey { return lockKey{c.key, c.isPermit()} }

// released is the keys of a shard at which an id of this process has recently ended: released, passed on or cancelled. A busy key
// has one entry. The shard's mutex guards it.
type released struct {
	keys  map[lockKey]*releasedKey
	order list.List[*releasedKey] // the key whose last end is oldest comes first
}

// A releasedKey is a key at which ids of this process have ended.
type releasedKey struct {
	list.Links[*releasedKey]

	lockKey
	upTo uint64        // the greatest number of these ids
	at   clock.Instant // when the last of them ended
}

const (
	// maxReleased limits the keys of a shard. The shards are not equally full: of 8,192 keys a shard gets 128 on average, and
	// practically never twice as many. Each key takes about 130 bytes.
	maxReleased = 256
	// releaseLost is how long a release may still be lost: replicas lag behind, and then it takes some time until a dead master
	// is noticed.
	releaseLost = 15 * time.Second
)

// note records that an id of a key has ended.
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
		one = r.order.First() // reuses its memory
		r.remove(one)
		r.dropOld(now)
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

// dropOld removes the entries that are too old to matter.
func (r *released) dropOld(now clock.Instant) {
	for r.hasOld(now) {
		r.remove(r.order.First())
	}
	if r.order.IsEmpty() {
		r.keys = nil
	}
}

// endedAfter reports whether an id of the key may have ended after that time.
func (r *released) endedAfter(k lockKey, then clock.Instant) bool {
	one := r.keys[k]
	return one != nil && one.at > then
}

// noteEnded records that the server has confirmed the end of an id.
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

// endedLately returns the keys at which an id has recently ended.
func (e *Engine) endedLately() (all []releasedKey) {
	now := clock.Now()
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		sh.released.dropOld(now)
		for one := range sh.released.order.All() {
			all = append(all, releasedKey{lockKey: one.lockKey, upTo: one.upTo})
		}
		sh.mu.Unlock()
	}
	return all
}

// holdersEndedLately returns the keys of the holders of the locks that have recently ended.
func (e *Engine) holdersEndedLately() (keys []string) {
	for _, one := range e.endedLately() {
		set := e.layout.KeySet(one.key)
		keys = append(keys, set.Holder())
	}
	return keys
}

// repeatReleases ends all recent ends again, because the server may have lost them. Ids in use stay. The process has an id in its
// table as long as it uses the id, so an id that is not there and whose number was used has ended.
func (e *Engine) repeatReleases() {
	ended := e.endedLately()
	if len(ended) == 0 {
		return
	}
	inUse := e.ids.inUse() // read after the numbers
	for i := range ended {
		one := &ended[i]
		sh := e.shardOf(one.key)
		sh.mu.Lock() // an id leaves the table and becomes one of voids under this mutex
		stay := e.voids.of(one.lockKey, inUse[one.lockKey])
		sh.mu.Unlock()
		e.disown(one.lockKey, one.upTo, stay, func() {})
	}
}

// disown ends the ids of this process at a key on the server, up to a number, except the ids in use. It then calls then.
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

// A server that has lost its latest writes may again have a hold of this process that has ended, and name it as the holder when a
// call asks for the lock. The process may have noticed nothing. Only this process can know that the hold has ended, so it ends
// everything that the server has of it at the key (rule 13 of docs/protocol.md).

// A doubt is about a holder that an answer has named as this process, although the process does not know the hold. A grant may be
// in flight.
type doubt struct {
	token int64
	at    clock.Instant // when the answer came
}

// disownEnded handles the holders that an answer names; its call was sent for r at that time. If one of them is an ended hold of
// this process, it disowns the key, calls then afterwards, and returns true.
func (r *request) disownEnded(sent clock.Instant, holders []core.Holder, then func()) bool {
	c, e := r.c, r.c.e
	token := c.namedHere(holders)
	if token == 0 || c.shard.released.endedAfter(c.lockKey(), sent) {
		return false // the answer may be older than the end of the hold
	}
	if c.n > 1 && !c.doubts(token, sent) {
		return false
	}
	known := e.ids.of(c.lockKey())
	if !showsEndedHold(known, holders, e.process) {
		return false
	}
	inUse := slices.Collect(maps.Keys(known))
	upTo := e.lastID.Load()                               // new ids of this key need the shard's lock
	c.shard.released.note(c.lockKey(), upTo, clock.Now()) // so other calls do not do the same
	e.disown(c.lockKey(), upTo, e.voids.of(c.lockKey(), inUse), then)
	return true
}

// namedHere returns the token of a holder of this process that is not the latest lease of the key, or 0 if there is none.
func (c *cohort) namedHere(holders []core.Holder) int64 {
	for i := range holders {
		h := &holders[i]
		if h.Process == c.e.process && !h.Lingers && (c.latest == nil || h.Token != c.latest.first) {
			return h.Token
		}
	}
	return 0
}

// doubts records that an answer names a holder of this process. It reports whether an earlier answer did so, long enough ago for
// a grant to have arrived.
func (n *entry) doubts(token int64, sent clock.Instant) bool {
	state := n.ensureRareState()
	if state.doubt.token == token {
		return sent.Sub(state.doubt.at) >= inbox.LateMessage
	}
	state.doubt = doubt{token, clock.Now()}
	return false
}

// showsEndedHold reports whether holders has more holds of this process with one token than the process knows; known is its
// requests and leases of the key. A lease that cannot be shared is the only hold: if the server names a different one, the next
// renewal shows which is right.
func showsEndedHold(known map[uint64]any, holders []core.Holder, process string) bool {
	leases := make(map[int64]int)
	for _, v := range known {
		l, ok := v.(*lease)
		if !ok {
			continue
		}
		if !l.isRead() && !l.c.isPermit() {
			return false
		}
		leases[l.first]++
	}
	for i := range holders {
		if h := &holders[i]; h.Process == process && !h.Lingers {
			leases[h.Token]--
			if leases[h.Token] < 0 {
				return true
			}
		}
	}
	return false
}
