package asynqmw

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// A parking is what a server knows of the tasks that wait for locks of one Redis. A task that meets a busy lock leaves
// its worker and is parked: it is put back into its queue, and stands on the list of its lock. It is called, which
// is to be moved to the front of its queue, when
//
//   - a task of this server gets the lock, and no other task needs a worker: the next one is then there in time, and
//     waits for the lock in its worker
//   - a task of this server releases the lock, and none waits for it in a worker here
//   - the lock is seen to be free, or was held by others for a while: see look
//
// The lists are in Redis, and what stands there is only a hint: promote.lua looks at each task before it moves it.
type parking struct {
	server *server
	locks  core.Backend
	lists  lists
	state  parkingState

	mu     sync.Mutex
	crowds map[crowdID]*crowd   // those with parked tasks
	looks  map[string]time.Time // the queues whose lists are looked at: when their last task came
}

// A crowdID names the tasks of a queue that want one lock, by its Redis key.
type crowdID struct{ queue, lock string }

// A crowd is what is known of those tasks.
type crowd struct {
	waiting int           // in workers of this server
	mean    time.Duration // how long a task has the lock; 0: unknown
	calling bool          // a promotion is on its way
	again   bool          // and a release came after it
	gone    []string      // tasks that have got the lock, and may be on the list
}

const (
	// maxCrowds is how many crowds are known at most. The tasks of others are called when their lock is seen to be
	// free.
	maxCrowds = 10_000
	// fetching is how long a task that was called takes to be there, if the server is idle.
	fetching = 15 * time.Millisecond
	// longHold is the time from which on a hold is so long that it does not matter how long fetching takes.
	longHold = 500 * time.Millisecond
	// shortestStay and longestStay are how long a task waits in its worker: not so long that lockmw asks whether it waits
	// for itself.
	shortestStay = 100 * time.Millisecond
	longestStay  = core.StallAfter * 4 / 5
	// shortestAway and longestAway are how long a parked task is away if nothing calls it.
	shortestAway = 15 * time.Second
	longestAway  = 10 * time.Minute
	// usualHold is how long a task is thought to have its lock before that is known.
	usualHold = 100 * time.Millisecond
	// maxTries is how often tasks on their way back into the queue are waited for, a millisecond each.
	maxTries = 20
)

// know notes that a lock has parked tasks. The result is nil if too many locks are known.
func (p *parking) know(id crowdID) *crowd {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.crowds[id]
	if c == nil && len(p.crowds) < maxCrowds {
		c = &crowd{}
		p.crowds[id] = c
	}
	return c
}

// ask asks what becomes of a task with a busy lock.
func (p *parking) ask(ctx context.Context, c parkCall) (parkAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	answer, err := p.lists.park(ctx, c)
	if err == nil && answer.what == parkTask {
		p.know(c.crowdID)
	}
	return answer, err
}

// holds is called when a task of this server got a lock. What it returns is to be called after the release.
func (p *parking) holds(id crowdID, a *attempt) (released func()) {
	since, when := time.Now(), callAhead
	if p.locks.Shared {
		when = callAnyway // readers read together
	}
	p.mu.Lock()
	c := p.crowds[id]
	if c != nil {
		c.gone = append(c.gone, a.id)
	}
	p.mu.Unlock()
	if c != nil {
		go p.call(id, when)
	}
	return func() { p.released(id, time.Since(since)) }
}

// released is called when a task of this server, which had a lock for so long, has released it.
func (p *parking) released(id crowdID, had time.Duration) {
	p.mu.Lock()
	c := p.crowds[id]
	if c != nil {
		if c.mean == 0 {
			c.mean = had
		}
		c.mean += (had - c.mean) / 4
	}
	call := c != nil && c.waiting == 0
	p.mu.Unlock()
	if call { // before the worker takes another task
		p.call(id, callAnyway)
	}
}

// call moves tasks of a crowd to the front of their queue: ahead of the release as many as may wait in workers,
// otherwise one.
func (p *parking) call(id crowdID, when callWhen) {
	if n, c := p.beginCall(id, when); n > 0 {
		p.promote(id, c, n, when, 0)
	}
}

// promote continues a call. Tasks on their way back into the queue are waited for in the background.
func (p *parking) promote(id crowdID, c *crowd, n int, when callWhen, tries int) {
	for {
		gone := p.takeGone(c)
		ctx, cancel := context.WithTimeout(context.Background(), answerIn)
		done, err := p.lists.promote(ctx, id, n, when, gone)
		cancel()
		if err == nil && done.soon && tries < maxTries && !p.isClosed() {
			time.AfterFunc(time.Millisecond, func() { p.promote(id, c, n, when, tries+1) })
			return
		}
		if !p.endCall(id, c, err == nil && done.left == 0) {
			return
		}
		n, when, tries = 1, callAnyway, 0
	}
}

func (p *parking) takeGone(c *crowd) (gone []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone, c.gone = c.gone, nil
	return gone
}

// beginCall returns how many tasks are to be called; 0 if others are being called already.
func (p *parking) beginCall(id crowdID, when callWhen) (n int, c *crowd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c = p.crowds[id]
	switch {
	case c == nil:
		return 0, nil
	case c.calling:
		c.again = c.again || when == callAnyway
		return 0, c
	case when != callAhead:
		n = 1
	default:
		n = c.depth(p.server.maxWaits())
	}
	c.calling = n > 0
	return n, c
}

// endCall reports whether another call is due. With none left on the list the crowd is forgotten.
func (p *parking) endCall(id crowdID, c *crowd, noneLeft bool) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again = c.again && !noneLeft
	c.again, c.calling = false, again
	if noneLeft && c.waiting == 0 {
		delete(p.crowds, id)
	}
	return again
}

// depth is how many tasks may wait in workers: one, or more if they have the lock for a shorter time than it takes
// to fetch the next one; none if they have it for long.
func (c *crowd) depth(most int) int {
	switch {
	case c.mean == 0:
		return 1
	case c.mean > longHold:
		return 0
	}
	return min(max(1, int(fetching/c.mean)), most)
}

// stay returns how long a task may wait for its lock in its worker: 0 if it may not. Call leave in any case.
func (p *parking) stay(id crowdID) (wait time.Duration, leave func()) {
	c := p.know(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == nil || c.waiting >= c.depth(p.server.maxWaits()) {
		return 0, func() {}
	}
	if !p.server.beginStay() {
		return 0, func() {}
	}
	switch wait = longestStay; {
	case p.server.workers == 1: // which others need
		wait = shortestStay
	case c.mean > 0:
		wait = min(max(4*c.mean, shortestStay), longestStay)
	}
	c.waiting++
	return wait, func() {
		p.server.endStay()
		p.mu.Lock()
		c.waiting--
		p.mu.Unlock()
	}
}

// away is how long a parked task is away if nothing calls it: by the time its turn should have come twice.
func (p *parking) away(id crowdID, rank int) time.Duration {
	p.mu.Lock()
	mean := usualHold
	if c := p.crowds[id]; c != nil && c.mean > 0 {
		mean = c.mean
	}
	p.mu.Unlock()
	d := longestAway * 3 / 4
	if far := int64(d / (2 * mean)); int64(rank) < far {
		d = max(shortestAway, 2*time.Duration(rank)*mean)
	}
	return d + rand.N(d/4)
}

func (p *parking) isClosed() bool {
	select {
	case <-p.locks.Closed:
		return true
	default:
		return false
	}
}

// A parkingState says whether tasks can be parked: the queues may be in another Redis, or not be allowed to be
// seen.
type parkingState struct {
	mu    sync.Mutex
	works bool
	off   time.Time // when it was found not to work
}

// offFor is how long it is not tried again.
const offFor = time.Minute

// isOff reports whether tasks are not to be parked for the time being.
func (s *parkingState) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.off.IsZero() && time.Since(s.off) < offFor
}

// note takes what came of parking a task. It returns why parking is turned off, if it is, the first time.
func (s *parkingState) note(what parkAction, err error) (why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, refused := errors.AsType[redis.Error](err)
	switch {
	case err == nil && what == unknownTask && !s.works:
		why = errors.New("the task is not where asynq 0.26 keeps it, in the Redis that the locks are in")
	case refused:
		why = err
	case err == nil && what != unknownTask:
		s.works, s.off = true, time.Time{}
	}
	if why == nil {
		return nil
	}
	told := !s.off.IsZero()
	if s.off = time.Now(); told {
		return nil
	}
	return why
}
