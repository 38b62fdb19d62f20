package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A span is for how long a call waited or held. Each has a label of its own.
type span struct {
	key   string
	begun time.Time
	over  time.Time // zero: not yet
}

// A recorder knows of each call how it waited and held.
type recorder struct {
	mu     sync.Mutex
	waits  map[string]*span
	holds  map[string]*span
	number int
	found  int
}

func (r *recorder) begin(of map[string]*span, label, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of[label] = &span{key: key, begun: time.Now()}
}

func (r *recorder) end(of map[string]*span, label string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of[label].over = time.Now()
}

func (r *recorder) label() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	return fmt.Sprint("call-", r.number)
}

// check returns what is wrong with a deadlock that was just reported: at one instant of the last second all of it was there.
func (r *recorder) check(d lockmw.Deadlock) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found++
	from, to := time.Now().Add(-time.Second), time.Now()
	within := func(s *span, key string) error {
		if s == nil || s.key != key {
			return fmt.Errorf("no call had or wanted %q so", key)
		}
		if s.begun.After(from) {
			from = s.begun
		}
		if !s.over.IsZero() && s.over.Before(to) {
			to = s.over
		}
		return nil
	}
	var errs []error
	for i, s := range d.Circle {
		errs = append(errs, within(r.waits[s.Label], s.Wants))
		before := d.Circle[(i+len(d.Circle)-1)%len(d.Circle)]
		errs = append(errs, within(r.holds[s.HasLabel], s.Has))
		if s.Has != before.Wants {
			errs = append(errs, fmt.Errorf("step %d has %q, and the one before wants %q", i, s.Has, before.Wants))
		}
	}
	if from.After(to) {
		errs = append(errs, fmt.Errorf("it was never there as a whole: from %v to %v", from, to))
	}
	return errors.Join(errs...)
}

// A rambler takes random locks one within the other, of any kind, and works.
type rambler struct {
	t       *testing.T
	r       *recorder
	rand    *rand.Rand
	lockers []lockmw.Locker
	permits lockmw.Locker // of the first key
	keys    int
	held    map[int]bool
}

func (m *rambler) nest(ctx context.Context, depth int) error {
	i := m.rand.IntN(m.keys)
	if m.held[i] { // for reading perhaps: there are no upgrades
		return nil
	}
	key, label := fmt.Sprint("k", i), m.r.label()
	opts, locker := []lockmw.Option{lockmw.WithLabel(label)}, m.lockers[m.rand.IntN(len(m.lockers))]
	if i == 0 {
		opts, locker = append(opts, lockmw.WithWeight(1+m.rand.IntN(2))), m.permits
	}
	switch m.rand.IntN(6) {
	case 0:
		opts = append(opts, lockmw.WithWait(time.Duration(m.rand.IntN(6000))*time.Millisecond))
	case 1:
		opts = append(opts, lockmw.WithMaxHold(time.Duration(1+m.rand.IntN(6000))*time.Millisecond))
	}
	m.r.begin(m.r.waits, label, key)
	ctx, h, err := locker.Lock(ctx, key, opts...)
	if d, ok := lockmw.DeadlockOf(err); ok {
		if wrong := m.r.check(d); wrong != nil {
			m.t.Errorf("%v\n%v", err, wrong)
		}
	}
	m.r.end(m.r.waits, label)
	if err != nil {
		return err
	}
	m.r.begin(m.r.holds, label, key)
	m.held[i] = true
	time.Sleep(time.Duration(m.rand.IntN(300)) * time.Millisecond)
	for err == nil && depth > 0 && m.rand.IntN(3) > 0 {
		err = m.nest(ctx, depth-1)
	}
	delete(m.held, i)
	m.r.end(m.r.holds, label)
	_ = h.Unlock() // it may be lost
	return err
}

// However calls nest, no call waits forever, and every reported deadlock was real.
func TestDeadlocksOfRandomNestingAreReal(t *testing.T) {
	seeds, calls := 1, 8
	if suite.Full() {
		calls = 25
		if !race.Enabled {
			seeds = 20
		}
	}
	for seed := range seeds {
		usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			r := &recorder{waits: make(map[string]*span), holds: make(map[string]*span)}
			var ramblers sync.WaitGroup
			for p := range 4 {
				c := process(t, s)
				write := rwlock.New(c)
				for g := range 3 {
					m := &rambler{
						t: t, r: r, rand: rand.New(rand.NewPCG(uint64(seed), uint64(10*p+g))), keys: 5, held: make(map[int]bool),
						lockers: []lockmw.Locker{c, fairlock.New(c), write, write.RLocker()}, permits: semaphore.New(c, 3),
					}
					ramblers.Go(func() {
						for range calls {
							_ = m.nest(ctx, 4)
						}
					})
				}
			}
			ramblers.Wait()
			if err := ctx.Err(); err != nil {
				t.Error("a call waited for too long")
			}
			t.Logf("seed %d: %d calls, %d deadlocks", seed, r.number, r.found)
			if r.found == 0 {
				t.Error("there was no deadlock")
			}
		})
	}
}

func TestManyNestedWaitsAreNoStorm(t *testing.T) {
	if race.Enabled {
		t.Skip("10,000 goroutines are too many for the race detector")
	}
	waits := 2_000
	if suite.Full() {
		waits = 10_000
	}
	count := func(detect time.Duration) (sent int64) {
		usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
			var commands atomic.Int64
			rdb := s.NewClient(t)
			rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
				commands.Add(int64(len(cmds)))
				return send()
			}))
			c := usertest.ClientOf(t, rdb, lockmw.AsOwnProcess(), lockmw.WithDeadlockDetection(detect))
			busy := nest(t, process(t, s)).has("busy")
			outer := nest(t, c).has("outer")
			ctx, cancel := context.WithCancel(outer.ctx)
			var calls sync.WaitGroup
			for range waits {
				calls.Go(func() {
					if _, _, err := c.Lock(ctx, "busy"); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			before := commands.Load()
			time.Sleep(20 * time.Second)
			sent = commands.Load() - before
			cancel()
			calls.Wait()
			for _, n := range []*nester{busy, outer} {
				usertest.Unlock(t, n.holds)
			}
		})
		return sent
	}
	with, without := count(time.Second), count(0)
	t.Logf("in 20 s %d commands, without detection %d", with, without)
	if more := with - without; more < 2 || more > 400 {
		t.Errorf("in 20 s %d commands, without detection %d", with, without)
	}
}
