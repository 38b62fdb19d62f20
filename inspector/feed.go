package inspector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A feed reads one thing from Redis again and again, for all who look at it, and only while somebody does.
type feed[T any] struct {
	pace  *pace
	class int
	every time.Duration // how long to wait after a read, at least
	load  float64       // the part of its time in which a read asks the server; 0: all of it
	first bool          // there are many like it: their first reads have a bound
	// read reads it once. It may say that it gets on, which keeps it waiting while nobody looks, and show what it has so far.
	read func(ctx context.Context, alive func(), sofar func(T)) (T, error)

	mu      sync.Mutex
	viewers map[*viewer]bool
	running bool               // a goroutine reads: from the first viewer on until the last has gone, and a read under way has ended
	left    chan struct{}      // says that the last viewer has gone
	cancel  context.CancelFunc // ends the read under way
	abort   *time.Timer        // calls it, after the last viewer has gone
	came    sync.Cond          // says that there is a viewer again, or that the read under way is cancelled
	begun   time.Time          // when the read under way began

	last  reading[T]
	costs [2]time.Duration // what the last reads took
	done  time.Time        // when the last read ended
}

// A reading is what was read last, and what has gone wrong since.
type reading[T any] struct {
	value T
	at    time.Time // when it was read; zero: never
	whole bool      // false: it is still being read for the first time
	since time.Time // the read that is under way has shown nothing since then; zero: none is under way
	err   error     // of the last read; nil: it succeeded
}

// A viewer is told when something that it looks at has changed.
type viewer struct{ changed chan struct{} }

func newViewer() *viewer { return &viewer{make(chan struct{}, 1)} }

func (v *viewer) tell() {
	select {
	case v.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// A pace says how often feeds may read: all together in a share of the time.
type pace struct {
	running [classes]atomic.Int64

	mu    sync.Mutex
	first int       // how many first reads are under way
	paid  time.Time // until when the first reads so far have used up their share
}

const (
	firstReads = 4               // side by side
	ahead      = 5 * time.Second // by how much first reads may be ahead of their share: some 60 of a server that is near
	askAgain   = 50 * time.Millisecond
)

// admit lets a first read begin, or returns after what time to ask again.
func (p *pace) admit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if early := time.Until(p.paid.Add(-ahead)); early > 0 {
		return early
	}
	if p.first >= firstReads {
		return askAgain
	}
	p.first++
	return 0
}

// admitted ends a first read.
func (p *pace) admitted(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first--
	if now := time.Now(); p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(float64(took) / share))
}

// share is the part of the time that all feeds of a handler may spend reading. Of that time the server spends a part
// only: the rest is on the wire, and in this process.
const share = 0.0125

// The classes of feeds. Those of a class that run have its part of the share in common.
const (
	ofLocks  = iota // all of them
	ofQueues        // the locks that are waited for
	ofOthers        // a key, the server
	classes
)

// parts are how the share is divided among the classes, if a feed of each runs.
var parts = [classes]float64{ofLocks: 5, ofQueues: 3, ofOthers: 2}

// pause is how long a feed of a class is to wait after a read that took so long.
func (p *pace) pause(class int, took time.Duration) time.Duration {
	all := 0.0
	for c := range parts {
		if c == class || p.running[c].Load() > 0 {
			all += parts[c]
		}
	}
	part := parts[class] / all / float64(max(p.running[class].Load(), 1))
	return time.Duration(float64(took) / part / share)
}

// keepFor is how long a read that began so long ago is kept when nobody looks any more: ten times as long, up to a minute. It asks
// the server nothing meanwhile. A reload continues it: of very many locks it may take longer than somebody waits for a page.
func keepFor(began time.Duration) time.Duration { return min(max(10*began, time.Second), time.Minute) }

// watch has v told of changes until leave is called, which does not wait for a read that is under way.
func (f *feed[T]) watch(v *viewer) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.viewers == nil {
		f.viewers, f.left, f.came.L = make(map[*viewer]bool), make(chan struct{}, 1), &f.mu
	}
	f.viewers[v] = true
	f.came.Broadcast()
	if f.abort != nil {
		f.abort.Stop()
	}
	if !f.running {
		f.running = true
		f.pace.running[f.class].Add(1) // here, so that what is watched together shares the time from the beginning
		go f.run()
	}
	return func() { f.leave(v) }
}

func (f *feed[T]) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.viewers, v); len(f.viewers) > 0 {
		return
	}
	if f.cancel != nil {
		cancel := f.cancel
		f.abort = time.AfterFunc(keepFor(time.Since(f.begun)), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			cancel()
			f.came.Broadcast()
		})
	}
	select {
	case f.left <- struct{}{}:
	default: // it was said before, and not heard yet
	}
}

// run reads until nobody looks.
func (f *feed[T]) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for f.goesOn() {
		wait := time.Until(f.due()) // which changes with what else is read
		if wait <= 0 && f.isFirst() {
			wait = f.pace.admit()
		}
		if wait <= 0 {
			f.readOnce()
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-f.left:
		}
	}
}

// goesOn reports whether somebody looks. If nobody does, the goroutine is over.
func (f *feed[T]) goesOn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running = len(f.viewers) > 0; !f.running {
		f.pace.running[f.class].Add(-1)
	}
	return f.running
}

// isFirst reports whether the next read is a first one that needs to be admitted.
func (f *feed[T]) isFirst() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first && f.done.IsZero()
}

func (f *feed[T]) readOnce() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begun := time.Now()
	var rested time.Duration
	alive := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		began := time.Now()
		for len(f.viewers) == 0 && ctx.Err() == nil {
			f.came.Wait()
		}
		f.last.since, f.last.err = time.Now(), nil // it answers
		rested += f.last.since.Sub(began)
	}
	if f.isFirst() {
		defer func() { f.pace.admitted(time.Since(begun)) }()
	}
	if !f.begin(begun, cancel) {
		return
	}
	value, err := f.read(ctx, alive, func(sofar T) {
		f.update(func() {
			if !f.last.whole {
				f.last.value, f.last.at, f.last.err = sofar, time.Now(), nil
			}
		})
	})
	f.update(func() {
		now := time.Now()
		if f.abort != nil {
			f.abort.Stop()
		}
		f.cancel, f.abort = nil, nil
		answered := f.last.since.Sub(begun) - rested // until the server has last said something
		f.done, f.last.since = now, time.Time{}
		took := now.Sub(begun) - rested
		switch {
		case err == nil:
			f.last = reading[T]{value: value, at: now, whole: true}
			f.costs = [2]time.Duration{f.costs[1], took}
		case ctx.Err() != nil: // it took too long for nobody
			f.costs[1] = max(f.costs[1], answered)
		default:
			f.last.err = err
		}
	})
}

// begin starts a read that cancel ends. It reports false if the last viewer has just left: nobody would end the read.
func (f *feed[T]) begin(now time.Time, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == 0 {
		return false
	}
	f.cancel, f.begun, f.last.since = cancel, now, now
	return true
}

// update changes what was read, and tells the viewers.
func (f *feed[T]) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	for v := range f.viewers {
		v.tell()
	}
}

// due is when to read next.
func (f *feed[T]) due() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dueLocked()
}

func (f *feed[T]) dueLocked() time.Time {
	if f.done.IsZero() {
		return time.Time{}
	}
	took := f.costs[1]
	if f.costs[0] > 0 {
		took = min(took, f.costs[0]) // a server that stood still for a while was not busy with us
	}
	if f.load > 0 {
		took = time.Duration(float64(took) * f.load)
	}
	return f.done.Add(max(f.every, f.pace.pause(f.class, took)))
}

// now returns the last reading.
func (f *feed[T]) now() reading[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// idle reports whether nobody looks, and the last reading is so old that it need not be kept.
func (f *feed[T]) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.viewers) == 0 && time.Since(f.dueLocked()) > 0
}

// patience is how long a page waits for a server that says nothing, before it says so.
const patience = 3 * time.Second

// glance is how long a page waits for something newer than what is known.
const glance = 300 * time.Millisecond

// fresh waits for a reading that is not due to be read again: until ctx ends, or until the end of a glance if there is a reading, or
// the last one has failed.
func (f *feed[T]) fresh(ctx context.Context, glance time.Time) reading[T] {
	v := newViewer()
	defer f.watch(v)()
	limit := time.NewTimer(time.Until(glance))
	defer limit.Stop()
	for over := false; ; {
		f.mu.Lock()
		r, due := f.last, f.dueLocked()
		f.mu.Unlock()
		if (over || time.Until(due) > 0) && (r.whole || r.err != nil) {
			return r
		}
		select {
		case <-v.changed:
		case <-limit.C:
			over = true
		case <-ctx.Done():
			return r
		}
	}
}

// silent is for how long the server has said nothing to a read that is under way; 0 if that is not worth a word.
func (r *reading[T]) silent() time.Duration {
	if r.since.IsZero() || time.Since(r.since) < patience-100*time.Millisecond {
		return 0
	}
	return time.Since(r.since)
}
