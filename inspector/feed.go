package inspector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A feed reads one thing from Redis repeatedly, once for all viewers, and only while there are viewers.
type feed[T any] struct {
	pace  *pace
	class int
	every time.Duration // minimum pause after a read
	load  float64       // the part of its time that a read keeps the server busy; 0: all of it
	// read reads once, after last was read. It may call alive to report progress; alive blocks while there are no viewers.
	read func(ctx context.Context, last T, alive func()) (T, error)

	mu      sync.Mutex
	viewers map[*viewer]bool
	first   bool               // the next read is the first one, of one of many such feeds: it has to be admitted
	running bool               // the goroutine runs: from the first viewer until the last has left and the current read has ended
	left    chan struct{}      // signals that the last viewer has left
	cancel  context.CancelFunc // ends the current read
	abort   *time.Timer        // calls cancel some time after the last viewer has left
	came    sync.Cond          // signals a new viewer, or that the current read was cancelled
	begun   time.Time          // start of the current read

	last  reading[T]
	costs [2]time.Duration // durations of the last reads
	done  time.Time        // end of the last read
}

// A reading is the last value with its time, and the error of the last read.
type reading[T any] struct {
	value T
	at    time.Time // when value was read; zero: never
	whole bool      // false: the first read is still running
	since time.Time // last progress of the current read; zero: no read is running
	err   error     // of the last read; nil: it succeeded
}

// A viewer is notified of changes of the feeds that it watches.
type viewer struct{ changed chan struct{} }

func newViewer() *viewer { return &viewer{make(chan struct{}, 1)} }

func (v *viewer) tell() {
	select {
	case v.changed <- struct{}{}:
	default: // a notification is pending already
	}
}

// A pace limits all feeds together to a share of the time.
type pace struct {
	running [classes]atomic.Int64

	mu    sync.Mutex
	first int       // running first reads
	paid  time.Time // the first reads so far have used up their share until then
}

const (
	firstReads = 4               // concurrent first reads
	ahead      = 5 * time.Second // credit of first reads: some 60 reads of a nearby server
	askAgain   = 50 * time.Millisecond
)

// admit lets a first read begin and returns 0, or returns the time after which to ask again.
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

// admitted ends a first read that kept the server busy for this long. A server that does not answer is not busy with the read.
func (p *pace) admitted(cost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first--
	if now := time.Now(); p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(float64(cost) / share))
}

// share is the part of the time that all feeds of a handler may spend reading. The server is busy for only a part of it; the rest
// passes on the wire and in this process.
const share = 0.0125

// The classes of feeds. The running feeds of a class divide its part of the share.
const (
	ofLocks  = iota // all locks
	ofQueues        // the locks with waiters
	ofOthers        // a key, the server
	classes
)

// parts divides the share among the classes while a feed of each runs.
var parts = [classes]float64{ofLocks: 5, ofQueues: 3, ofOthers: 2}

// pause returns the pause of a feed after a read that took this long.
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

// keepFor returns how long to keep a read without viewers: ten times its age so far, from a second up to a minute. Meanwhile it sends
// nothing to the server. A reload continues it, because a read of very many locks may take longer than people wait for a page.
func keepFor(began time.Duration) time.Duration { return min(max(10*began, time.Second), time.Minute) }

// watch notifies v of changes until leave is called. leave does not wait for the current read.
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
		f.pace.running[f.class].Add(1) // here, so that feeds that start together divide the time from the beginning
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
	default: // a signal is pending already
	}
}

// run reads until there are no viewers.
func (f *feed[T]) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for f.continues() {
		wait := f.wait()
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

// continues reports whether there are viewers. If not, the goroutine must end.
func (f *feed[T]) continues() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running = len(f.viewers) > 0; !f.running {
		f.pace.running[f.class].Add(-1)
	}
	return f.running
}

// wait returns the time until the next read may begin. If that is now, a first read is admitted.
func (f *feed[T]) wait() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := time.Until(f.due())
	if wait <= 0 && f.first {
		wait = f.pace.admit()
	}
	return wait
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
		f.last.since, f.last.err = time.Now(), nil // the server answers
		rested += f.last.since.Sub(began)
	}
	cost := time.Duration(0) // that the server had, as far as is known
	if f.first {
		defer func() { f.pace.admitted(cost) }()
	}
	if !f.begin(begun, cancel) {
		return
	}
	value, err := f.read(ctx, f.now().value, alive)
	f.update(func() {
		now := time.Now()
		if f.abort != nil {
			f.abort.Stop()
		}
		f.cancel, f.abort = nil, nil
		answered := f.last.since.Sub(begun) - rested // until the server's last answer
		f.first, f.done, f.last.since = false, now, time.Time{}
		took := now.Sub(begun) - rested
		if cost = answered; err == nil || transport.IsReply(err) {
			cost = took
		}
		switch {
		case err == nil:
			f.last = reading[T]{value: value, at: now, whole: true}
			f.costs = [2]time.Duration{f.costs[1], took}
		case ctx.Err() != nil: // cancelled, because nobody watched any more
			f.costs[1] = max(f.costs[1], answered)
		default:
			f.last.err = err
		}
	})
}

// begin starts a read that cancel ends. It reports false if the last viewer has just left, because then nothing would end the read.
func (f *feed[T]) begin(now time.Time, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.viewers) == 0 {
		return false
	}
	f.cancel, f.begun, f.last.since = cancel, now, now
	return true
}

// sofar shows a part of the value while the first read runs.
func (f *feed[T]) sofar(part T) {
	f.update(func() {
		if !f.last.whole {
			f.last.value, f.last.at, f.last.err = part, time.Now(), nil
		}
	})
}

// update changes the reading and notifies the viewers.
func (f *feed[T]) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	for v := range f.viewers {
		v.tell()
	}
}

// due returns the time of the next read, which depends on the other feeds that run. f is locked.
func (f *feed[T]) due() time.Time {
	if f.done.IsZero() {
		return time.Time{}
	}
	took := f.costs[1]
	if f.costs[0] > 0 {
		took = min(took, f.costs[0]) // one slow read may mean that the server was stalled, not busy with reads
	}
	if f.load > 0 {
		took = time.Duration(float64(took) * f.load)
	}
	return f.done.Add(max(f.every, f.pace.pause(f.class, took)))
}

// readNow reads immediately, for an instruction that must not act on an older reading.
func (f *feed[T]) readNow(ctx context.Context) reading[T] {
	value, err := f.read(ctx, f.now().value, func() {})
	return reading[T]{value: value, at: time.Now(), whole: true, err: err}
}

// now returns the last reading.
func (f *feed[T]) now() reading[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// idle reports whether there are no viewers and the last reading is too old to keep.
func (f *feed[T]) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.viewers) == 0 && time.Since(f.due()) > 0
}

// patience is how long a page waits for a silent server before it reports that.
const patience = 3 * time.Second

// glance is how long a page waits for newer data if it has some already.
const glance = 300 * time.Millisecond

// fresh waits for a reading that is not yet due again. It waits until ctx ends; with a reading, or after a failed read, only until
// glance.
func (f *feed[T]) fresh(ctx context.Context, glance time.Time) reading[T] {
	v := newViewer()
	defer f.watch(v)()
	limit := time.NewTimer(time.Until(glance))
	defer limit.Stop()
	for waited := false; ; {
		f.mu.Lock()
		r, due := f.last, f.due()
		f.mu.Unlock()
		if (waited || time.Until(due) > 0) && (r.whole || r.err != nil) {
			return r
		}
		select {
		case <-v.changed:
		case <-limit.C:
			waited = true
		case <-ctx.Done():
			return r
		}
	}
}

// silent returns how long the server has not answered the current read; 0 if that is too short to report.
func (r *reading[T]) silent() time.Duration {
	if r.since.IsZero() || time.Since(r.since) < patience-100*time.Millisecond {
		return 0
	}
	return time.Since(r.since)
}
