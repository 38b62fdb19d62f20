package workload

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/stat"
)

// takers are goroutines that wait for a key each, and unlock it as soon as they hold it.
type takers struct {
	locker library.Announcer
	page   *exclusion.Page
	keys   []string

	queued *gate // each goroutine passes when it has to wait
	ended  *gate // each passes when it has unlocked its key, or has failed

	mu          sync.Mutex
	begun, last time.Time // of the first release; of the last grant
	gap         time.Duration
	waits       stat.Latency // since begun
	served      int64
	failed      int64 // failed calls, by overload
	err         error // the first other error
}

func newTakers(locker library.Announcer, page *exclusion.Page, keys []string) *takers {
	return &takers{locker: locker, page: page, keys: keys, queued: newGate(len(keys)), ended: newGate(len(keys))}
}

// start makes all wait until ctx ends.
func (t *takers) start(ctx context.Context) {
	for i := range t.keys {
		go func() {
			defer t.ended.pass()
			if err := t.take(ctx, i); err != nil && ctx.Err() == nil {
				t.fail(err)
			}
		}()
	}
}

// queue starts all, and returns when all wait.
func (t *takers) queue(ctx context.Context) error {
	t.start(ctx)
	if got := t.queued.await(waitedLimit); got < t.queued.n {
		return fmt.Errorf("%d of %d calls are queued after %v", got, t.queued.n, waitedLimit)
	}
	return nil
}

func (t *takers) take(ctx context.Context, i int) error {
	hold, err := t.locker.LockAnnounced(ctx, t.keys[i], t.queued.pass)
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	t.page.Enter(i)
	t.granted(time.Now())
	t.page.Leave(i)
	if err := hold.Unlock(); err != nil {
		return fmt.Errorf("unlocking: %w", err)
	}
	return nil
}

func (t *takers) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case isOverload(err):
		t.failed++
	case t.err == nil:
		t.err = err
	}
}

// granted records a grant.
func (t *takers) granted(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.served++
	if t.begun.IsZero() {
		return // the holder has not released yet: the page has recorded the violation
	}
	t.gap = max(t.gap, now.Sub(t.last))
	t.last = now
	t.waits.Record(now.Sub(t.begun))
}

// begin is called before the first release.
func (t *takers) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = time.Now()
	t.last = t.begun
}

// serve reports, when all have ended or the limit has passed, how many got their locks since begin. The error is the first one
// that is not an overload.
func (t *takers) serve(limit time.Duration, r *Report) error {
	t.ended.await(limit)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return fmt.Errorf("%d of %d waiters were served: %w", t.served, len(t.keys), t.err)
	}
	end := t.last
	if t.served < int64(len(t.keys)) {
		end = time.Now()
		t.gap = max(t.gap, end.Sub(t.last))
	}
	r.Pairs, r.Counts, r.Elapsed = t.served, []int64{t.served}, end.Sub(t.begun)
	r.Latency.Merge(&t.waits)
	if r.More == nil {
		r.More = make(map[string]float64)
	}
	r.More[FailedCalls] = float64(t.failed)
	r.More[ServedShare] = float64(t.served) / float64(len(t.keys))
	r.More[ServedMillis] = millis(r.Elapsed)
	r.More[LongestGap] = millis(t.gap)
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A gate opens when a number of goroutines have passed.
type gate struct {
	n      int64
	passed atomic.Int64
	open   chan struct{}
}

func newGate(n int) *gate {
	return &gate{n: int64(n), open: make(chan struct{})}
}

func (g *gate) pass() {
	if g.passed.Add(1) == g.n {
		close(g.open)
	}
}

// await waits for all, up to the limit. It returns how many have passed.
func (g *gate) await(limit time.Duration) int64 {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-g.open:
	case <-timer.C:
	}
	return g.passed.Load()
}
