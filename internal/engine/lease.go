package engine

import (
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
)

// A lease is what the server has granted to this process, under one id. It is passed from hold to hold
// within the process as long as there are tokens, or shared by several readers. The shard's mutex guards it.
type lease struct {
	c         *cohort
	id        *script.ID
	duration  time.Duration
	grantedAt instant          // when it came to this process
	holds     list.List[*hold] // one, or those of readers that share it, the first to end first
	placed    *hold            // ended, and its kept place ends with it; nil: none
	slots     string           // of a permit
	mode      core.Mode        // Read from a downgrade on
	confirmed bool             // the server has set the duration; before that, the accept window
	over      bool             // released or lost
	contended bool             // another process waits for the lock
	run       *run             // who may have it next, in strict order; nil: it has none
	checking  bool             // a renewal is to say whether more readers may join
	moved     bool             // its slot has, and replicas there have not acknowledged it
	listens   bool             // counted by its inbox
	takenAway bool             // a message says that an operator took it away, and no renewal has been answered since
	overdue   bool             // a renewal has no answer in good time, which the holders know

	first        int64   // the token that it began with
	next, last   int64   // tokens that are not used yet; a shared lease has only one
	passes       int     // since it is contended
	contendedAt  instant // when the last message said so
	shareUntil   instant // readers may join without a command until then
	subscription int64   // the one that would bring the message of a writer

	expires atomic.Int64  // an instant: the lock is exclusive until then
	renewAt instant       // 0: never
	slack   time.Duration // by how much it may be early
	asked   instant       // when the first renewal was sent that has no answer; 0: none
	hintAt  instant       // when the last renewal was sent, or is going to be, that a message led to; 0: never
	timer   timer         // for what comes first: a renewal, the deadline, or that an answer is overdue
	timerAt instant       // when the timer is due; 0: not set
}

// newHold gives a caller the lease, or a share in it.
func (l *lease) newHold(r *core.Request, now instant) *hold {
	h := &hold{lease: l, req: r, token: l.next, since: now}
	if l.renewAt == 0 && !r.Fixed { // so far only forgotten holds shared the lease
		l.renewAfter(now, 0)
	}
	if r.MinHold > 0 {
		h.keepFor(r.MinHold)
	}
	l.holds.Push(h)
	l.adoptTerms(h)
	l.c.e.active.Add(1)
	return h
}

// adoptTerms gives the lease the duration and the limits that h wants.
func (l *lease) adoptTerms(h *hold) {
	if l.duration != h.req.Lease {
		l.duration, l.confirmed = h.req.Lease, false
		l.renewAfter(h.since, 0)
	}
	if h.req.MaxHold > 0 {
		h.limitTo(after(h.since, h.req.MaxHold))
	}
	if h.req.Fixed {
		if l.confirmed {
			l.renewAt = 0
			h.limitTo(instant(l.expires.Load()))
		} else {
			h.limitTo(h.since + l.duration)
		}
	}
	l.reschedule()
}

// reschedule sets the timer to the deadline or the next renewal, whatever comes first. A renewal may be
// early, to go out together with others.
func (l *lease) reschedule() {
	at, slack := l.deadline(), time.Duration(0)
	if l.renewAt != 0 && l.renewAt < at {
		at, slack = l.renewAt, l.slack
	}
	if l.asked != 0 && !l.overdue && l.overdueAt() < at {
		at, slack = l.overdueAt(), 0
	}
	if at != l.timerAt {
		l.timerAt = at
		l.c.e.schedule.set(&l.timer, at, slack)
	}
}

// deadline returns when the first hold is over unless the lease is renewed.
func (l *lease) deadline() instant {
	if l.holds.First() == nil {
		return instant(l.expires.Load())
	}
	return l.holds.First().deadline()
}

// due is called when the lease's timer is due. It ends holds whose time is over, or the whole lease, and
// returns the holds. It also reports whether the lease is to be renewed. What it returns as news are
// functions to be called: the answer to a renewal is overdue, or holds were forgotten.
func (l *lease) due() (renew bool, lost []*hold, news []func()) {
	c := l.c
	c.shard.mu.Lock()
	defer c.unlock()
	if l.over {
		return false, nil, nil
	}
	l.timerAt = 0
	now := c.e.now()
	lost = l.expire(now)
	if l.over {
		return false, lost, nil
	}
	if l.asked != 0 && !l.overdue && now >= l.overdueAt() {
		l.overdue = true
		news = append(news, l.reportRenewal(errOverdue))
	}
	if l.renewAt != 0 && now >= l.renewAt-l.slack {
		if l.asked == 0 { // else an answer that is to come makes the lease longer
			if report := l.findForgotten(); report != nil {
				news = append(news, report)
			}
		}
		renew, l.renewAt = l.isWanted(), 0
	}
	if renew {
		// The next renewal is sent whether or not this one has been answered.
		l.renewAfter(now, l.retryInterval(now))
		if l.asked == 0 {
			l.asked = max(now, 1)
		}
	}
	l.reschedule()
	return renew, lost, news
}

// isFresh reports whether enough is left of the lease to give it to another caller.
func (l *lease) isFresh(now instant) bool {
	whole := script.AcceptWindow
	if l.confirmed {
		whole = l.duration
	}
	return instant(l.expires.Load())-now >= whole/2
}

// setContended notes whether other processes wait. If that is new, passes are counted from now on.
func (l *lease) setContended(contended bool) {
	if contended != l.contended {
		l.contended, l.passes = contended, 0
	}
	if contended {
		l.shareUntil = 0
	}
}

// cancel has the server forget the lease, in the background.
func (l *lease) cancel() { l.c.e.cancelID(l.c.keys, l.target()) }

func (l *lease) target() cancelTarget {
	t := cancelTarget{key: l.c.lockKey(), id: l.id.String(), lease: l.duration, mark: l.id.Copied()}
	t.isHold = l.c.e.now() < instant(l.expires.Load())
	if l.placed != nil {
		t.place, t.endPlace = l.placed.req.Place, l.placed.token
	}
	if l.run != nil {
		t.served = l.run.servedIDs(0)
	}
	return t
}

// isRead reports whether the lease excludes no readers.
func (l *lease) isRead() bool { return l.mode == core.Read }

// isUnused reports whether there is no hold, and no reader waits for a share.
func (l *lease) isUnused() bool {
	return l.holds.First() == nil && !(l.c.isShared() && l.c.lease == l && l.c.waiters.n > 0)
}

// detach ends the lease and its holds on this side, and returns those that are lost. cause is nil if none is.
func (l *lease) detach(cause error) (lost []*hold) {
	l.c.e.ids.remove(l.id)
	return l.detachKeepingID(cause)
}

// detachKeepingID is detach for a lease that is to be released. Its id stays known until the release is
// answered: else a late push of its grant would be cancelled as unwanted, and overtake the release.
func (l *lease) detachKeepingID(cause error) (lost []*hold) {
	for h := l.holds.First(); h != nil; h = l.holds.First() {
		l.endHold(h, cause)
		if cause != nil {
			lost = append(lost, h)
		}
	}
	l.over = true
	if l.listens {
		l.c.slot.inbox.listeners.Add(-1)
	}
	if l.c.lease == l {
		l.c.lease = nil
		l.c.endTally()
	}
	l.c.siblings.removeLease(l)
	l.c.e.schedule.remove(&l.timer)
	if l.run != nil {
		l.run.end()
	}
	return lost
}

// endHold ends one hold on this side. cause is nil if it is not lost.
func (l *lease) endHold(h *hold, cause error) {
	l.holds.Remove(h)
	h.lost, h.over = cause, true
	if h.keepsPlace() {
		l.placed = h
	}
	l.c.e.holdEnded()
}
