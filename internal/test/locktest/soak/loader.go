package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// Roles has the role of a child that contends for locks, driven by its seed.
var Roles = env.Roles{loadRole: load}

const loadRole = "load"

// A loadOrder tells a child of the soak what to do until the end of its orders.
type loadOrder struct {
	Seed    uint64
	Child   uint64 // number of the child
	Workers int
	Keys    []string
	Starved time.Duration // a call that waits this long is a violation
}

// A loadReport is a report of a child. Times are the machine's.
type loadReport struct {
	Event    loadEvent     `json:"v"`
	Key      string        `json:"k,omitempty"`
	Token    int64         `json:"t,omitempty"`
	Asked    time.Duration `json:"c,omitempty"` // with granted: when Lock was called; with late: when the call's context ended
	At       time.Duration `json:"a,omitempty"`
	Deadline time.Duration `json:"d,omitempty"`
	Wrong    string        `json:"w,omitempty"`

	Counts     map[string]int `json:"n,omitempty"` // calls since the last report, by outcome
	Heap       uint64         `json:"h,omitempty"` // after garbage collection
	Goroutines int            `json:"g,omitempty"`
}

type loadEvent string

const (
	loadGranted loadEvent = "granted"
	loadRenewed loadEvent = "renewed"
	loadEnded   loadEvent = "ended"
	loadLate    loadEvent = "late"  // a call returned long after the end of its context
	loadWrong   loadEvent = "wrong" // a guarantee was broken
	loadState   loadEvent = "state"
)

const (
	loadStatePeriod = time.Second
	loadLateness    = 100 * time.Millisecond // smaller delays are not reported
)

// A loader is a child that contends for locks, driven by its seed.
type loader struct {
	locker lockmw.Locker
	order  loadOrder
	ctx    context.Context // ends with the orders

	mu     sync.Mutex
	out    *json.Encoder
	counts map[string]int
}

func load(_ *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error {
	l := &loader{locker: locker, out: out, counts: make(map[string]int)}
	if err := in.Decode(&l.order); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.ctx = ctx
	var wg sync.WaitGroup
	for i := range l.order.Workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(l.order.Seed, l.order.Child<<16|uint64(i)+1))
			for l.ctx.Err() == nil {
				l.call(rng)
			}
		})
	}
	wg.Go(l.state)
	err := in.Decode(new(loadOrder)) // waits for the end of the orders
	stop()
	wg.Wait()
	return err
}

// state reports the child's memory use and counts periodically.
func (l *loader) state() {
	tick := time.NewTicker(loadStatePeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			l.reportState()
			return
		}
		l.reportState()
	}
}

func (l *loader) reportState() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.mu.Lock()
	counts := l.counts
	l.counts = make(map[string]int)
	l.mu.Unlock()
	l.report(&loadReport{
		Event: loadState, At: judge.MachineTime(time.Now()),
		Counts: counts, Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine(),
	})
}

func (l *loader) report(r *loadReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.out.Encode(r) // fails only if the parent is gone; then this process ends too
}

func (l *loader) wrong(key, format string, args ...any) {
	l.report(&loadReport{Event: loadWrong, Key: key, Wrong: fmt.Sprintf(format, args...)})
}

func (l *loader) count(outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[outcome]++
}

// A plan is everything that is decided before a call. A seed repeats it.
type plan struct {
	key    string
	wait   time.Duration // lockmw.Forever: until the context ends
	cancel time.Duration // when its context ends
	lease  time.Duration
	fixed  bool
	most   time.Duration // WithMaxHold; 0: not used
	work   time.Duration
	nested bool
}

func (l *loader) plan(rng *rand.Rand) plan {
	p := plan{
		key:    l.order.Keys[rng.IntN(len(l.order.Keys))],
		wait:   lockmw.Forever,
		cancel: l.order.Starved,
		lease:  []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, soakLease}[rng.IntN(4)],
		fixed:  rng.Float64() < 0.1,
		nested: rng.Float64() < 0.15,
	}
	switch x := rng.Float64(); {
	case x < 0.3:
		p.wait = 0
	case x < 0.5:
		p.wait = env.Between(rng, time.Millisecond, 500*time.Millisecond)
	}
	if rng.Float64() < 0.2 {
		p.cancel = env.Between(rng, 0, 100*time.Millisecond)
	}
	if rng.Float64() < 0.05 {
		p.most = env.Between(rng, 5*time.Millisecond, 100*time.Millisecond)
	}
	switch x := rng.Float64(); {
	case x < 0.7:
		p.work = env.Between(rng, 0, time.Millisecond)
	case x < 0.97:
		p.work = env.Between(rng, 0, 20*time.Millisecond)
	case x < 0.997:
		p.work = env.Between(rng, 0, 200*time.Millisecond)
	default:
		p.work = min(2*p.lease, soakWork)
	}
	return p
}

func (p *plan) options() []lockmw.Option {
	opts := []lockmw.Option{lockmw.WithWait(p.wait), lockmw.WithLease(p.lease)}
	if p.fixed {
		opts[1] = lockmw.WithFixedLease(p.lease)
	}
	if p.most > 0 {
		opts = append(opts, lockmw.WithMaxHold(p.most))
	}
	return opts
}

// call takes a lock, works and releases it.
func (l *loader) call(rng *rand.Rand) {
	p := l.plan(rng)
	ctx, cancel := context.WithTimeout(l.ctx, p.cancel)
	defer cancel()
	h := &loaded{loader: l, key: p.key}
	observer := &lockmw.Observer{Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { h.renewed(err) }}
	asked := time.Now()
	inner, hold, err := l.locker.Lock(ctx, p.key, append(p.options(), lockmw.WithObserver(observer))...)
	now := time.Now()
	if err != nil {
		l.failed(&p, ctx, asked, now, err)
		return
	}
	h.granted(hold, asked, now)
	h.work(inner, &p)
	h.unlock(inner)
}

// failed checks why a call failed.
func (l *loader) failed(p *plan, ctx context.Context, asked, now time.Time, err error) {
	ended := ctx.Err() != nil
	took, until := now.Sub(asked), min(p.cancel, p.wait)
	switch {
	case l.ctx.Err() != nil: // the child is ending, so the cause is ambiguous
		return
	case ended && p.cancel == l.order.Starved:
		l.wrong(p.key, "waited %v: %v", took, err)
	case errors.Is(err, lockmw.ErrUnavailable):
		l.count("unavailable")
	case ended && errors.Is(err, lockmw.ErrNotRequested): // the process stood still before the call
		l.count("not requested")
	case !errors.Is(err, lockmw.ErrBusy):
		l.wrong(p.key, "Lock: %v", err)
	case !ended && took < until && p.wait > 0:
		l.wrong(p.key, "gave up after %v of %v: %v", took, until, err)
	default:
		l.count("busy")
	}
	if p.wait == 0 {
		until = p.cancel // TryLock is limited only by its context
	}
	if took-until > loadLateness {
		l.report(&loadReport{Event: loadLate, Key: p.key, Asked: judge.MachineTime(asked.Add(until)), At: judge.MachineTime(now)})
	}
}
