package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// A parker parks and wakes the tasks of a server that wait for locks of one Client. A task that meets a busy lock leaves its worker
// and is parked: it is put back into its queue and joins the list of its lock. Waking moves it to the front of its queue. A task is
// woken when
//
//   - a task of this server gets the lock, and no other task needs a worker: the next task then waits for the lock in its worker
//   - a task of this server releases the lock, and no task of this server waits for it or was on its way a moment ago
//   - the lock is found to be free, or others have held it for a while: see look
//
// The lists are in Redis and are only hints: wake.lua checks each task before it moves it.
type parker struct {
	id     string // identifies the server to look.lua
	server *server
	locks  core.Backend
	store  parked.Store
	logger *slog.Logger
	state  parkerState

	mu    sync.Mutex
	stats map[parked.ListID]*keyStats // of locks with parked tasks
	looks map[string]*lookState       // by queue
	sick  time.Time                   // no task is woken until then
}

// keyStats describes the tasks on one list.
type keyStats struct {
	waiting int           // in workers of this server
	mean    time.Duration // how long a task holds the lock; 0: unknown
	waking  bool          // a wake is in progress
	again   bool          // the lock was released during the wake
	next    bool          // a task was on its way, or waited, when the lock was last taken
	gone    []string      // tasks that have got the lock and may still be listed
	seen    time.Time     // when a check last found the list, or a task last needed it
}

const (
	// maxStats limits the lists that a server tracks. The tasks of other lists are woken when their lock is found to be free.
	maxStats = 10_000
	// unseenFor is how long a list is tracked that is in none of the checks, if they read only some of all lists, at random.
	unseenFor = time.Minute
	// fetching is the time until a woken task reaches an idle server.
	fetching = 15 * time.Millisecond
	// longHold is the mean hold above which the time for fetching does not matter.
	longHold = 500 * time.Millisecond
	// shortestStay and longestStay limit how long a task waits in its worker. The wait is too short for lockmw's warning that a
	// call may wait for itself.
	shortestStay = 100 * time.Millisecond
	longestStay  = core.SelfWaitAfter * 4 / 5
	// usualHold is the estimate of a hold before the mean is known.
	usualHold = 100 * time.Millisecond
	// maxTries is how often a wake is repeated for tasks on their way back into the queue: after a millisecond, then twice as long
	// each time.
	maxTries = 5
	// maxGone limits the tasks that are remembered until Redis hears that they have got a lock.
	maxGone = 1000
	// sickFor is how long no task is woken after a refusal of a lock: the next one would most likely be refused as well, and spend a
	// retry.
	sickFor = 5 * time.Second
)

// track returns the stats of a lock with parked tasks; nil if too many locks are tracked.
func (p *parker) track(w parked.ListID) *keyStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats[w]
	if s == nil && len(p.stats) < maxStats {
		s = &keyStats{}
		p.stats[w] = s
	}
	if s != nil {
		s.seen = time.Now()
	}
	return s
}

// park puts a task with a busy lock on its list.
func (p *parker) park(ctx context.Context, b parked.BusyTask) (parked.Answer, error) {
	b.Mean = usualHold
	p.mu.Lock()
	if s := p.stats[b.ListID]; s != nil && s.mean > 0 {
		b.Mean = s.mean
	}
	p.mu.Unlock()
	answer, err := p.store.Park(ctx, b)
	if answer.Action == parked.Park || answer.Action == parked.WaitInWorker {
		p.track(b.ListID)
		p.listed(b.Queue)
	}
	return answer, err
}

// mayBeFree reports whether a lock may have been released after a task found it busy and before the task was listed.
func (p *parker) mayBeFree(ctx context.Context, w parked.ListID) bool {
	if p.locks.Shared { // the lock may be granted although others hold it
		return true
	}
	n, err := p.locks.Redis.Exists(ctx, w.Lock).Result()
	return err == nil && n == 0
}

// holds is called after a task of this server got a lock. Call released after the release.
func (p *parker) holds(w parked.ListID, a *attempt) (released func()) {
	since, when := time.Now(), parked.Ahead
	if p.locks.Shared {
		when = parked.Anyway // several tasks may hold the lock
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

// released is called after a task of this server, which held a lock for the time had, has released it.
func (p *parker) released(w parked.ListID, had time.Duration) {
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

// passes is called for a task that no longer needs a lock: the next one may.
func (p *parker) passes(w parked.ListID, a *attempt) {
	p.mu.Lock()
	s := p.stats[w]
	if s != nil {
		s.gone = append(s.gone, a.id)
	}
	p.mu.Unlock()
	if s != nil {
		p.wake(w, parked.Anyway)
	}
}

// wake moves tasks of a list to the front of their queue. Ahead of the release it moves as many as may wait in workers, otherwise
// one.
func (p *parker) wake(w parked.ListID, when parked.When) {
	if n, s := p.beginWake(w, when); n > 0 {
		p.continueWake(w, s, n, when, 0)
	}
}

// continueWake runs a wake, and repeats it in the background for tasks that are still on their way back into the queue.
func (p *parker) continueWake(w parked.ListID, s *keyStats, n int, when parked.When, tries int) {
	for {
		p.mu.Lock()
		gone := s.gone
		s.gone = nil
		p.mu.Unlock()
		done, err := p.store.Wake(w, n, when, gone)
		if err != nil {
			p.mu.Lock()
			s.gone = append(gone, s.gone...)
			s.gone = s.gone[max(len(s.gone)-maxGone, 0):]
			p.mu.Unlock()
		}
		if parked.IsUndeclared(err) {
			p.note(context.Background(), w.Queue, "", parked.Unknown, err)
		}
		if done.Moved {
			p.server.idler.endPause()
		}
		if when == parked.Ahead {
			p.mu.Lock()
			s.next = err == nil && done.Next
			p.mu.Unlock()
		}
		if err == nil && done.WakeAgain && tries < maxTries && !p.isClosed() {
			time.AfterFunc(time.Millisecond<<tries, func() { p.continueWake(w, s, n, when, tries+1) })
			return
		}
		if !p.endWake(w, s, err == nil && done.Left == 0) {
			return
		}
		n, when, tries = 1, parked.Anyway, 0
	}
}

// beginWake returns how many tasks to wake; 0 if a wake is in progress.
func (p *parker) beginWake(w parked.ListID, when parked.When) (n int, s *keyStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.stats[w]
	switch {
	case time.Now().Before(p.sick):
		return 0, nil
	case s == nil && when == parked.Ahead:
		return 0, nil
	case s == nil: // too many are tracked
		return 1, &keyStats{waking: true}
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

// endWake reports whether to wake tasks again. It drops the stats of a list without tasks.
func (p *parker) endWake(w parked.ListID, s *keyStats, noneLeft bool) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again = s.again && !noneLeft
	s.again, s.waking = false, again
	if noneLeft && s.waiting == 0 && p.stats[w] == s {
		delete(p.stats, w)
	}
	return again
}

// prune drops the stats of lists of a queue that are gone: another server has woken their last tasks. A list that was not read is gone
// if the reading is complete, or if no reading has found it for a while.
func (p *parker) prune(queue string, read []string, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	listed := make(map[string]bool, len(read))
	for _, lock := range read {
		listed[lock] = true
	}
	maps.DeleteFunc(p.stats, func(w parked.ListID, s *keyStats) bool {
		if w.Queue != queue || listed[w.Lock] || s.waiting > 0 || s.waking {
			return false
		}
		return complete && len(s.gone) == 0 || time.Since(s.seen) > unseenFor
	})
}

// noteRefusal is called after Redis has refused a lock: see isRefused.
func (p *parker) noteRefusal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = time.Now().Add(sickFor)
}

// isRefused reports whether a lock could not be had though Redis answers, as in a quarantine or without enough replicas. Redis may show
// the lock as free.
func isRefused(err error) bool {
	if _, network := errors.AsType[net.Error](err); network || errors.Is(err, io.EOF) {
		return false
	}
	return errors.Is(err, lockmw.ErrUnavailable) && !errors.Is(err, core.ErrNoAnswer) && !transport.IsPoolTimeout(err)
}

// depth returns how many tasks may wait in workers: normally one, none if holds are long, and more if holds are shorter than the
// time to fetch the next task.
func (s *keyStats) depth(most int) int {
	switch {
	case s.mean == 0:
		return 1
	case s.mean > longHold:
		return 0
	}
	return min(max(1, int(fetching/s.mean)), most)
}

// stay returns how long a task may wait for its lock in its worker: 0 if it may not. Call leave in any case. One task that was put
// back may wait even if holds are long: a task that only tries never gets a lock for which others always wait.
func (p *parker) stay(w parked.ListID, a *attempt) (wait time.Duration, leave func()) {
	s := p.track(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == nil {
		return 0, func() {}
	}
	most := s.depth(p.server.maxWaits())
	if a.requeued > 0 {
		most = max(most, 1)
	}
	if s.waiting >= most || !p.server.beginWait() {
		return 0, func() {}
	}
	switch wait = longestStay; {
	case p.server.workers == 1: // other tasks need the worker
		wait = shortestStay
	case s.mean > 0:
		wait = min(max(4*s.mean, shortestStay), longestStay)
	}
	s.waiting++
	return a.fifthOf(wait), func() {
		p.server.endWait()
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

// note records the outcome of parking or waking a task, and logs why tasks can no longer be parked.
func (p *parker) note(ctx context.Context, queue, task string, what parked.Action, err error) {
	if why := p.state.note(what, err); why != nil {
		p.logger.WarnContext(ctx, "asynqmw: tasks that meet a busy lock come back after a delay, not when it is free, because they cannot be parked",
			"queue", queue, "task", task, "error", why)
	}
}

// A parkerState says whether tasks can be parked. They cannot if the queues are in another Redis, the user lacks the rights, or the
// server refuses scripts that use undeclared keys.
type parkerState struct {
	mu      sync.Mutex
	works   bool
	off     time.Time // when parking last failed
	forever bool      // the server refuses undeclared keys, which a park may not meet, but the wake that follows
}

// offFor is the time before parking is tried again.
const offFor = time.Minute

// isOff reports whether parking has failed less than offFor ago.
func (s *parkerState) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forever || !s.off.IsZero() && time.Since(s.off) < offFor
}

// note records the outcome of parking a task. It returns why parking is turned off, but only the first time.
func (s *parkerState) note(what parked.Action, err error) (why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := transport.IsReply(err) && !transport.IsTemporary(err) && !transport.IsFull(err)
	switch {
	case s.forever:
		return nil
	case parked.IsUndeclared(err):
		s.forever = true
		why = fmt.Errorf("the server refuses scripts that use keys which they do not declare, and asynqmw needs such scripts: "+
			"allow undeclared keys on the server (docs/servers.md), and start this process again: %w", err)
	case refused:
		why = err
	case err != nil || what == parked.Unknown && s.works:
		return nil
	case what == parked.Unknown:
		why = errors.New("the task is not in the Redis of the queues, in the keys of asynq " + parked.Release)
	default:
		s.works, s.off = true, time.Time{}
		return nil
	}
	warned := !s.off.IsZero()
	if s.off = time.Now(); warned {
		return nil
	}
	return why
}
