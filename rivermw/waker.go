package rivermw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"

	"github.com/lockmw/go/internal/loglimit"
	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

const (
	maxParked = 10_000                 // jobs that a Waker remembers
	maxKeys   = 1_000                  // keys whose locks it waits for
	onTheWay  = 100 * time.Millisecond // how long a woken job counts as on its way to a worker of this process
	round     = 50 * time.Millisecond  // the shortest time between two calls for the lock of one key, and between two tries to wake a job

	longestRound = time.Second // the longest time: no job gets the lock, because no worker is free, or the Waker fails
)

// A Waker wakes jobs that this process has snoozed because of their locks. For each key with snoozed jobs one goroutine waits in the
// queue of the lock. When it gets the lock, it releases it and wakes the jobs with the lowest IDs. They are also woken when a job of
// this process gets the lock, so that the next ones are ready in their workers.
//
// A Waker remembers up to 10,000 jobs of 1,000 keys. Further jobs come back by the clock, within 15 s. So do the jobs of a process
// that has ended, after the time of WithSnooze. A Waker is safe for concurrent use, and may serve several middlewares.
type Waker struct {
	wake func(context.Context, []parkedJob) (again []parkedJob, err error)

	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	lines    loglimit.Limit
	onTheWay time.Duration

	mu     sync.Mutex // held when ctx ends
	parked int
	lists  map[listKey]*parkedList
}

type listKey struct {
	guard *guard
	key   string
}

// A parkedList has the snoozed jobs of one key.
type parkedList struct {
	listKey
	jobs   []parkedJob         // by ID
	woken  map[int64]time.Time // jobs on their way to a worker
	waking bool                // a transaction is under way
	ran    bool                // a job has got the lock since the last round
}

// NewWaker returns a Waker that uses the database of the jobs. driver is the driver of the river client, and begin starts a
// transaction, such as the Begin method of a pgxpool.Pool. For database/sql write a function that calls BeginTx. Close it after the
// river client has stopped. The error is that of river.NewClient.
func NewWaker[TTx any](driver riverdriver.Driver[TTx], begin func(context.Context) (TTx, error), opts ...WakerOption) (*Waker, error) {
	option.NotNil(begin, "rivermw: NewWaker: begin is nil")
	// This client only inserts. It tells river's clients of a new job at most once in each FetchCooldown.
	c := river.Config{FetchCooldown: time.Millisecond}
	option.Apply(&c, "rivermw: NewWaker", opts)
	client, err := river.NewClient(driver, &c)
	if err != nil {
		return nil, fmt.Errorf("rivermw: NewWaker: %w", err)
	}
	db := &database[TTx]{client, begin}
	ctx, cancel := context.WithCancel(context.Background())
	return &Waker{wake: db.wake, ctx: ctx, cancel: cancel, onTheWay: onTheWay, lists: make(map[listKey]*parkedList)}, nil
}

// Close stops waking jobs and waits for the goroutines of the Waker. Jobs that are still snoozed come back by the clock. It may be
// called several times.
func (w *Waker) Close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.work.Wait()
}

// park remembers a job that is about to be snoozed. It returns false if the job will not be woken.
func (w *Waker) park(g *guard, a attempt) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lists[listKey{g, a.key}]
	if w.ctx.Err() != nil || w.parked >= maxParked || l == nil && len(w.lists) >= maxKeys {
		return false
	}
	if l == nil {
		l = &parkedList{listKey: listKey{g, a.key}, woken: make(map[int64]time.Time)}
		w.lists[l.listKey] = l
		w.work.Go(func() { w.watch(l) })
	}
	w.insert(l, newParkedJob(a.job))
	return true
}

// mayWait reports whether a job that begins may wait for its lock. A new job must not take the place of one that was snoozed.
func (w *Waker) mayWait(g *guard, a attempt) bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lists[listKey{g, a.key}]
	if l == nil {
		return true
	}
	if i, found := l.find(a.job.ID); found { // it has come back by the clock
		l.jobs = slices.Delete(l.jobs, i, i+1)
		w.parked--
	}
	delete(l.woken, a.job.ID)
	return a.snoozes > 0 || len(l.jobs) == 0
}

// refill wakes jobs for the free places in workers, when a job of their key has got the lock.
func (w *Waker) refill(g *guard, key string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lists[listKey{g, key}]
	if l == nil || w.ctx.Err() != nil {
		return
	}
	l.ran = true
	if batch := w.take(l, 0); len(batch) > 0 {
		w.work.Go(func() { _ = w.deliver(l, batch) }) // has logged its error
	}
}

// watch wakes the jobs of a list each time that their lock is free, until none is left.
func (w *Waker) watch(l *parkedList) {
	wait := round
	for {
		err := l.awaitFree(w.ctx)
		if err == nil {
			w.mu.Lock()
			batch := w.take(l, 1)
			w.mu.Unlock()
			err = w.deliver(l, batch)
		}
		ran, remains := w.remains(l, err)
		switch {
		case err != nil:
			wait = longestRound
		case ran:
			wait = round
		}
		if !remains || !pause.For(w.ctx, wait) {
			return
		}
		wait = min(2*wait, longestRound)
	}
}

// awaitFree waits for the lock in its queue.
func (l *parkedList) awaitFree(ctx context.Context) error {
	_, hold, err := l.guard.locker.Lock(ctx, l.key, append(l.guard.lockOpts,
		lockmw.WithWait(lockmw.Forever), lockmw.WithMaxWaiters(0), lockmw.WithMinHold(0), lockmw.WithLabel("river-waker"))...)
	if err != nil {
		return err
	}
	return hold.Unlock()
}

// remains reports whether a job has got the lock since the last round, and whether the list still has jobs. Without jobs, and if the
// lock cannot be taken any longer, it drops the list.
func (w *Waker) remains(l *parkedList, err error) (ran, remains bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ran, l.ran = l.ran, false
	if len(l.jobs) > 0 && !errors.Is(err, lockmw.ErrClosed) || l.waking {
		return ran, true
	}
	w.parked -= len(l.jobs)
	delete(w.lists, l.listKey)
	return ran, false
}

// take removes the next jobs from the list: as many as there are places for in workers, and at least least if none is on its way.
// From now on they are on their way: they may begin before deliver returns.
func (w *Waker) take(l *parkedList, least int) []parkedJob {
	if l.waking {
		return nil
	}
	now := time.Now()
	for id, at := range l.woken {
		if now.Sub(at) > w.onTheWay {
			delete(l.woken, id)
		}
	}
	if len(l.woken) > 0 {
		least = 0
	}
	places := l.guard.places
	n := max(least, cap(places)-len(places)-len(l.woken))
	if n <= 0 {
		return nil
	}
	var batch, rest []parkedJob
	for _, j := range l.jobs {
		if len(batch) < n && now.After(j.notBefore) {
			batch = append(batch, j)
			l.woken[j.id] = now
		} else {
			rest = append(rest, j)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	l.jobs = rest
	w.parked -= len(batch)
	l.waking = true
	return batch
}

// deliver wakes jobs that take has returned. Those that cannot be woken yet return to the list.
func (w *Waker) deliver(l *parkedList, batch []parkedJob) error {
	if len(batch) == 0 {
		return nil
	}
	again, err := w.wake(w.ctx, batch)
	if err != nil {
		again = batch
		if _, ok := w.lines.Allow("wake"); ok && w.ctx.Err() == nil {
			observe.LoggerOf(l.guard.locker).WarnContext(w.ctx, "rivermw: snoozed jobs cannot be woken; they come back by the clock", slog.Any("error", err))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.waking = false
	for _, j := range batch {
		if _, coming := l.woken[j.id]; coming { // otherwise it has begun already
			l.woken[j.id] = time.Now()
		}
	}
	for _, j := range again {
		delete(l.woken, j.id)
		j.notBefore = time.Now().Add(round)
		w.insert(l, j)
	}
	return err
}

func (w *Waker) insert(l *parkedList, j parkedJob) {
	i, found := l.find(j.id)
	if found {
		l.jobs[i] = j
		return
	}
	l.jobs = slices.Insert(l.jobs, i, j)
	w.parked++
}

func (l *parkedList) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(l.jobs, id, func(j parkedJob, id int64) int { return cmp.Compare(j.id, id) })
}
