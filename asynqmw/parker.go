package asynqmw

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/parked"
)

// A parker is what a server knows of the tasks that wait for locks of one Redis. A task that meets a busy lock leaves
// its worker and is parked: it is put back into its queue, and stands on the list of its lock. It is woken, which
// moves it to the front of its queue, when
//
//   - a task of this server gets the lock, and no other task needs a worker: the next one is then there in time, and
//     waits for the lock in its worker
//   - a task of this server releases the lock, and none waits for it in a worker here, or was on its way a moment ago
//   - the lock is seen to be free, or was held by others for a while: see look
//
// The lists are in Redis, and what stands there is only a hint: wake.lua looks at each task before it moves it.
type parker struct {
	id     string // by which look.lua tells servers apart
	server *server
	locks  core.Backend
	store  parked.Store
	state  parkerState

	mu    sync.Mutex
	stats map[parked.Want]*keyStats // of locks with parked tasks
	looks map[string]*looking       // by queue
}

// keyStats is what is known of the tasks on one list.
type keyStats struct {
	waiting int           // in workers of this server
	mean    time.Duration // how long a task has the lock; 0: unknown
	waking  bool          // a wakening is on its way
	again   bool          // and a release came after it
	next    bool          // a task was on its way, or waited, when the lock was last taken
	gone    []string      // tasks that have got the lock, and may be on the list
}

const (
	// maxStats is how many lists are known at most. The tasks of others are woken when their lock is seen to be free.
	maxStats = 10_000
	// fetching is how long a task that was woken takes to be there, if the server is idle.
	fetching = 15 * time.Millisecond
	// longHold is the time from which on a hold is so long that it does not matter how long fetching takes.
	longHold = 500 * time.Millisecond
	// shortestStay and longestStay are how long a task waits in its worker: not so long that lockmw asks whether it waits
	// for itself.
	shortestStay = 100 * time.Millisecond
	longestStay  = core.StallAfter * 4 / 5
	// usualHold is how long a task is thought to have its lock before that is known.
	usualHold = 100 * time.Millisecond
	// maxTries is how often tasks on their way back into the queue are waited for: a millisecond, then twice as long each time.
	maxTries = 5
)

// know notes that a lock has parked tasks. The result is nil if too many locks are known.
func (p *parker) know(w parked.Want) *keyStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats[w]
	if s == nil && len(p.stats) < maxStats {
		s = &keyStats{}
		p.stats[w] = s
	}
	return s
}

// park puts a task with a busy lock on its list.
func (p *parker) park(ctx context.Context, b parked.Busy) (parked.Answer, error) {
	b.Mean = usualHold
	p.mu.Lock()
	if s := p.stats[b.Want]; s != nil && s.mean > 0 {
		b.Mean = s.mean
	}
	p.mu.Unlock()
	answer, err := p.store.Park(ctx, b)
	if err != nil {
		return answer, err
	}
	switch answer.What {
	case parked.Park:
		p.know(b.Want)
		p.listed(b.Queue)
	case parked.WaitInWorker:
		p.listed(b.Queue)
	}
	return answer, err
}

// mayBeFree reports whether a lock may have been released before a task that had found it busy was on the list.
func (p *parker) mayBeFree(ctx context.Context, w parked.Want) bool {
	if p.locks.Shared { // a hold of others does not tell
		return true
	}
	n, err := p.locks.Redis.Exists(ctx, w.Lock).Result()
	return err == nil && n == 0
}

// holds is called when a task of this server got a lock. Call the result after the release.
func (p *parker) holds(w parked.Want, a *attempt) (released func()) {
	since, when := time.Now(), parked.Ahead
	if p.locks.Shared {
		when = parked.Anyway // readers read together
	}
	p.mu.Lock()
	s := p.stats[w]
	if s != nil {
		s.gone = append(s.gone, a.id)
		s.next = false
	}
	p.mu.Unlock()
	if s != nil {
		go p.wake(w, when)
	}
	return func() { p.released(w, time.Since(since)) }
}

// released is called when a task of this server, which had a lock for so long, has released it.
func (p *parker) released(w parked.Want, had time.Duration) {
	p.mu.Lock()
	s := p.stats[w]
	if s != nil {
		if s.mean == 0 {
			s.mean = had
		}
		s.mean += (had - s.mean) / 4
	}
	due := s != nil && s.waiting == 0 && (!s.next || had >= shortestStay)
	p.mu.Unlock()
	if due { // before the worker takes another task
		p.wake(w, parked.Anyway)
	}
}

// wake moves tasks of a list to the front of their queue: ahead of the release as many as may wait in workers,
// otherwise one.
func (p *parker) wake(w parked.Want, when parked.When) {
	if n, s := p.beginWake(w, when); n > 0 {
		p.continueWake(w, s, n, when, 0)
	}
}

// continueWake waits in the background for tasks on their way back into the queue.
func (p *parker) continueWake(w parked.Want, s *keyStats, n int, when parked.When, tries int) {
	for {
		p.mu.Lock()
		gone := s.gone
		s.gone = nil
		p.mu.Unlock()
		done, err := p.store.Wake(w, n, when, gone)
		if done.Some {
			p.server.idler.endPause()
		}
		if when == parked.Ahead {
			p.mu.Lock()
			s.next = err == nil && done.Next
			p.mu.Unlock()
		}
		if err == nil && done.Soon && tries < maxTries && !p.isClosed() {
			time.AfterFunc(time.Millisecond<<tries, func() { p.continueWake(w, s, n, when, tries+1) })
			return
		}
		if !p.endWake(w, s, err == nil && done.Left == 0) {
			return
		}
		n, when, tries = 1, parked.Anyway, 0
	}
}

// beginWake returns how many tasks are to be woken; 0 if others are being woken already.
func (p *parker) beginWake(w parked.Want, when parked.When) (n int, s *keyStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.stats[w]
	switch {
	case s == nil:
		return 0, nil
	case s.waking:
		s.again = s.again || when == parked.Anyway
		return 0, s
	case when != parked.Ahead:
		n = 1
	default:
		n = s.depth(p.server.maxWaits())
	}
	s.waking = n > 0
	return n, s
}

// endWake reports whether tasks are to be woken again. With none left on the list its stats are dropped.
func (p *parker) endWake(w parked.Want, s *keyStats, noneLeft bool) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again = s.again && !noneLeft
	s.again, s.waking = false, again
	if noneLeft && s.waiting == 0 {
		delete(p.stats, w)
	}
	return again
}

// depth is how many tasks may wait in workers: one, or more if they have the lock for a shorter time than it takes
// to fetch the next one; none if they have it for long.
func (s *keyStats) depth(most int) int {
	switch {
	case s.mean == 0:
		return 1
	case s.mean > longHold:
		return 0
	}
	return min(max(1, int(fetching/s.mean)), most)
}

// stay returns how long a task may wait for its lock in its worker: 0 if it may not. Call leave in any case.
func (p *parker) stay(w parked.Want, a *attempt) (wait time.Duration, leave func()) {
	s := p.know(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == nil || s.waiting >= s.depth(p.server.maxWaits()) || !p.server.beginStay() {
		return 0, func() {}
	}
	switch wait = longestStay; {
	case p.server.workers == 1: // which others need
		wait = shortestStay
	case s.mean > 0:
		wait = min(max(4*s.mean, shortestStay), longestStay)
	}
	s.waiting++
	return a.fifthOf(wait), func() {
		p.server.endStay()
		p.mu.Lock()
		s.waiting--
		p.mu.Unlock()
	}
}

func (p *parker) isClosed() bool {
	select {
	case <-p.locks.Closed:
		return true
	default:
		return false
	}
}

// A parkerState says whether tasks can be parked: the queues may be in another Redis, or not be allowed to be seen.
type parkerState struct {
	mu    sync.Mutex
	works bool
	off   time.Time // when it was found not to work
}

// offFor is how long it is not tried again.
const offFor = time.Minute

// isOff reports whether tasks are not to be parked for the time being.
func (s *parkerState) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.off.IsZero() && time.Since(s.off) < offFor
}

// note takes what came of parking a task. It returns why parking is turned off, if it is, the first time.
func (s *parkerState) note(what parked.Action, err error) (why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, refused := errors.AsType[redis.Error](err)
	switch {
	case refused:
		why = err
	case err != nil || what == parked.Unknown && s.works:
		return nil
	case what == parked.Unknown:
		why = errors.New("the task is not where asynq " + parked.Release + " keeps it, in the Redis that the locks are in")
	default:
		s.works, s.off = true, time.Time{}
		return nil
	}
	told := !s.off.IsZero()
	if s.off = time.Now(); told {
		return nil
	}
	return why
}
