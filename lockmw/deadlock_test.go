package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A nester takes locks one within the other, in a goroutine of its own.
type nester struct {
	t      *testing.T
	locker lockmw.Locker
	ctx    context.Context
	holds  lockmw.Holds
	err    chan error // of a call that waits
}

func nest(t *testing.T, l lockmw.Locker) *nester {
	return &nester{t: t, locker: l, ctx: t.Context(), err: make(chan error, 1)}
}

// has takes a lock that is free.
func (n *nester) has(key string, opts ...lockmw.Option) *nester {
	n.t.Helper()
	ctx, h, err := n.locker.Lock(n.ctx, key, append(opts, lockmw.WithWait(time.Minute))...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.ctx, n.holds = ctx, append(n.holds, h)
	return n
}

// wants waits for a lock, and unlocks all when it has it, or an error.
func (n *nester) wants(key string, opts ...lockmw.Option) *nester {
	return n.wantsBy(n.locker, key, opts...)
}

func (n *nester) wantsBy(l lockmw.Locker, key string, opts ...lockmw.Option) *nester {
	go func() {
		_, h, err := l.Lock(n.ctx, key, opts...)
		if err == nil {
			err = h.Unlock()
		}
		for _, h := range slices.Backward(n.holds) {
			err = errors.Join(err, h.Unlock())
		}
		n.err <- err
	}()
	synctest.Wait()
	return n
}

// ends checks that all calls return within a time, and that so many of them were ended for a deadlock. It returns these errors.
func ends(t *testing.T, deadlocks int, within time.Duration, nesters ...*nester) (errs []error) {
	t.Helper()
	begun := time.Now()
	for i, n := range nesters {
		select {
		case err := <-n.err:
			if errors.Is(err, lockmw.ErrDeadlock) {
				errs = append(errs, err)
			} else if err != nil {
				t.Errorf("call %d: %v", i+1, err)
			}
		case <-time.After(time.Hour):
			t.Fatalf("call %d waits forever", i+1)
		}
	}
	if len(errs) != deadlocks {
		t.Errorf("%d deadlocks, want %d", len(errs), deadlocks)
	}
	if took := time.Since(begun); took > within {
		t.Errorf("it took %v", took)
	}
	return errs
}

// onEach runs a test within this process, by one Client, and by Clients as of several processes.
func onEach(t *testing.T, test func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker)) {
	bubble := func(name string, f func(t *testing.T) func(opts ...lockmw.Option) lockmw.Locker) {
		t.Run(name, func(t *testing.T) {
			defer race.OneProcessor()()
			synctest.Test(t, func(t *testing.T) { test(t, f(t)) })
		})
	}
	bubble("local", func(*testing.T) func(opts ...lockmw.Option) lockmw.Locker {
		local := lockmw.NewLocal()
		return func(opts ...lockmw.Option) lockmw.Locker { return with(local, opts) }
	})
	bubble("client", func(t *testing.T) func(opts ...lockmw.Option) lockmw.Locker {
		client := process(t, redistest.Piped(t))
		return func(opts ...lockmw.Option) lockmw.Locker { return with(client, opts) }
	})
	bubble("processes", func(t *testing.T) func(opts ...lockmw.Option) lockmw.Locker {
		s := redistest.Piped(t)
		return func(opts ...lockmw.Option) lockmw.Locker { return with(process(t, s), opts) }
	})
	bubble("fair", func(t *testing.T) func(opts ...lockmw.Option) lockmw.Locker {
		s := redistest.Piped(t)
		return func(opts ...lockmw.Option) lockmw.Locker { return with(fairlock.New(process(t, s)), opts) }
	})
}

func with(l lockmw.Locker, defaults []lockmw.Option) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return l.Lock(ctx, key, append(slices.Clip(defaults), opts...)...)
	})
}

// process returns a Client as of another process.
func process(t *testing.T, s *redistest.Server) *lockmw.Client {
	t.Helper()
	c := usertest.Client(t, s, lockmw.AsOwnProcess())
	return c
}

func TestOneOfACircleIsEnded(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onEach(t, func(t *testing.T, locker func(opts ...lockmw.Option) lockmw.Locker) {
				var all []*nester
				for i := range n {
					all = append(all, nest(t, locker()).has(fmt.Sprint("k", i), lockmw.WithLabel(fmt.Sprint("l", i))))
					time.Sleep(10 * time.Millisecond) // the last is the youngest
				}
				for i, nester := range all {
					nester.wants(fmt.Sprint("k", (i+1)%n))
				}
				errs := ends(t, 1, 2*time.Second, all...)
				d, ok := lockmw.DeadlockOf(errors.Join(errs...))
				if !ok || len(d.Circle) != n || !errors.Is(errs[0], lockmw.ErrBusy) {
					t.Fatalf("%v", errs)
				}
				for i, step := range d.Circle { // from the last on
					has, wants := (n-1+i)%n, (n+i)%n
					if step.Has != fmt.Sprint("k", has) || step.HasLabel != fmt.Sprint("l", has) || step.Wants != fmt.Sprint("k", wants) ||
						step.Waited < 900*time.Millisecond || step.Held < step.Waited || step.Process == "" || step.Owner == "" {
						t.Errorf("step %d is %+v", i, step)
					}
				}
			})
		})
	}
}
