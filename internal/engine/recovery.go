package engine

import (
	"context"
	"errors"
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

// A recovery is what follows when a server answers again that was away: it may be another one by now, or an older state
// of the same, which has lost what was written last. All leases are renewed at once, so that holders learn what they
// have lost; tickets are polled for; and what has ended lately is ended again, so that it does not stay taken for its lease
// (rule 13 of docs/protocol.md).
type recovery struct {
	e    *Engine
	away atomic.Bool // an answer was missing, and none has come since

	begun atomic.Int64 // an instant: when the last one began; 0: never

	mu       sync.Mutex
	timer    timers.Timer
	planned  clock.Instant // when the timer is due; 0: not set
	last     clock.Instant // when the leases were renewed; 0: never
	replaced clock.Instant // when that was, or is going to be, as a node was deposed; 0: never
}

// recoveryPause is how much time is between two recoveries: of several servers one may be away for long. So much is
// between two for nodes that were deposed, too, as they may not agree who that is.
const recoveryPause = time.Second

func (y *recovery) init(e *Engine) {
	y.e = e
	y.timer.Of(y)
	e.sender.Observe(y.note, y.deposed)
}

// note deals with how a command ended.
func (y *recovery) note(err error) {
	switch {
	case isAway(err):
		y.away.Store(true)
	case y.away.Load() && (err == nil || transport.IsReply(err) && !transport.IsFinal(err)) && y.away.CompareAndSwap(true, false):
		y.plan()
	}
}

// ended deals with the end of an id that the server has confirmed, by a run that was sent at that time. If a recovery has
// begun since then it has taken the id to be in use, and another server may have answered.
func (y *recovery) ended(sent clock.Instant) {
	if begun := y.begun.Load(); begun != 0 && sent < clock.Instant(begun) {
		y.plan()
	}
}

// deposed deals with a node of a Cluster that is no master any more. Another one has its slots.
func (y *recovery) deposed() {
	y.mu.Lock()
	if y.replaced <= clock.Now() { // else one is planned
		y.replaced = y.pauseAfter(y.replaced)
	}
	y.planAt(y.replaced)
	y.mu.Unlock()
	y.e.inboxes.Follow()
}

// isAway reports whether an error says that the server is away, or is not what it was. That an answer took longer than a
// caller had time says nothing.
func isAway(err error) bool {
	return transport.IsPassing(err) && !transport.IsMoving(err) && !errors.Is(err, context.DeadlineExceeded) && !transport.IsPoolTimeout(err)
}

// plan has the recovery begin soon.
func (y *recovery) plan() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.planAt(y.pauseAfter(y.last))
}

// pauseAfter returns now, or when there was a pause after the last time if that is later.
func (y *recovery) pauseAfter(last clock.Instant) clock.Instant {
	now := clock.Now()
	if last == 0 {
		return now
	}
	return max(now, last.Add(recoveryPause))
}

// planAt has the recovery begin then, or earlier if it is planned for that. The mutex is locked.
func (y *recovery) planAt(at clock.Instant) {
	if y.planned != 0 && y.planned <= at {
		return
	}
	y.planned = max(at, 1)
	y.e.schedule.Set(&y.timer, at, 0)
}

// Due recovers.
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
	e.pollAll()
	e.repeatReleases()
}

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

// A server that has lost its latest writes may have a hold of this process again that has ended, and name it as the holder
// when a call asks for the lock. The process may have noticed nothing else. Nobody but this process can tell that the hold is
// over, so it has the server end what it has of this process at the key (rule 13 of docs/protocol.md).

// A doubt is about a holder that an answer has named, of this process, which does not know it. A grant may be on its way.
type doubt struct {
	token int64
	at    clock.Instant // when the answer came
}

// disownEnded deals with the holders that an answer names, to a run for r that was sent at that time. If one is of this
// process, and over, it has the server end that, and reports that it does. then is called afterwards.
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
	inUse := make([]uint64, len(known))
	for i, v := range known {
		inUse[i] = numberOf(v)
	}
	upTo := e.lastID.Load()                               // ids of this key are made with the shard locked
	c.shard.released.note(c.lockKey(), upTo, clock.Now()) // other calls need not do the same
	e.disown(c.lockKey(), upTo, inUse, then)
	return true
}

// namedHere returns the token of a holder of this process that is not the latest lease of the key; 0: there is none.
func (c *cohort) namedHere(holders []core.Holder) int64 {
	for i := range holders {
		h := &holders[i]
		if h.Process == c.e.process && !h.Lingers && !c.hasLatest(h.Token) {
			return h.Token
		}
	}
	return 0
}

// hasLatest reports whether the latest lease began with that token.
func (n *entry) hasLatest(token int64) bool { return n.latest != nil && n.latest.first == token }

// doubts notes that an answer names a holder of this process, and reports whether one before has, long enough ago for
// a grant to arrive.
func (n *entry) doubts(token int64, sent clock.Instant) bool {
	more := n.more()
	if more.doubt.token == token {
		return sent.Sub(more.doubt.at) >= inbox.LateMessage
	}
	more.doubt = doubt{token, clock.Now()}
	return false
}

// showsEndedHold reports whether holders has more holds of a process with the same token than it knows: it has these requests
// and leases of the key. A lease that nobody can share is the only hold: if the server names another one, the next renewal
// of the lease says which.
func showsEndedHold(known []any, holders []core.Holder, process string) bool {
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

// numberOf returns the number of the id of a *request or *lease.
func numberOf(v any) uint64 {
	if r, ok := v.(*request); ok {
		return r.id.Number()
	}
	return v.(*lease).id.Number()
}
