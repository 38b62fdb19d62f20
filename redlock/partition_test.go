package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

// reaches lets a process reach only these nodes. The others do not answer, and their connections do not break.
func (p *process) reaches(nodes ...int) {
	for _, w := range p.wires {
		w.Swallow()
	}
	for _, i := range nodes {
		p.wires[i].Restore()
	}
}

// repeat lets several callers of a process repeat a call until ctx ends.
func (p *process) repeat(ctx context.Context, wg *sync.WaitGroup, callers int, call func(ctx context.Context)) {
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				call(ctx)
			}
		})
	}
}

// A process that reaches two nodes of five gets ErrUnavailable in time. A process that reaches four continues as if it were alone,
// though it needs one of the two.
func TestAPartitionStopsOnlyTheMinority(t *testing.T) {
	const wait = 2 * time.Second
	inBubble(t, 5, func(b *bubble) {
		few, most := b.process(redlock.WithQuorum(4)).warm(), b.process(redlock.WithQuorum(4)).warm()
		key := firstAt(0, 5) // both processes reach this node
		few.reaches(0, 1)
		most.reaches(0, 2, 3, 4)
		parted := time.Now()
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		few.repeat(ctx, &wg, 4, func(ctx context.Context) {
			start := time.Now()
			_, _, err := few.Lock(ctx, key, lockmw.WithWait(wait))
			if took := time.Since(start); !errors.Is(err, lockmw.ErrUnavailable) && ctx.Err() == nil || took > wait {
				b.Errorf("a call of the minority: %v after %v, want ErrUnavailable", err, took)
			}
		})
		few.repeat(ctx, &wg, 1, func(ctx context.Context) {
			start := time.Now()
			_, _, err := few.TryLock(ctx, key)
			early := time.Since(parted) < 2*time.Second && errors.Is(err, lockmw.ErrBusy) // the lock is busy, and a majority has answered lately
			if took := time.Since(start); !errors.Is(err, lockmw.ErrUnavailable) && ctx.Err() == nil && !early || took > wait {
				b.Errorf("a try of the minority: %v after %v, want ErrUnavailable", err, took)
			}
			time.Sleep(100 * time.Millisecond)
		})
		for time.Since(parted) < 6*time.Second {
			start := time.Now()
			_, hold := lock(b.T, most, key)
			if took := time.Since(start); took > time.Second { // one call waits for the timeout of the unreachable node
				b.Errorf("a call of the majority took %v", took)
			}
			time.Sleep(100 * time.Millisecond)
			_ = hold.Unlock()
		}
		cancel()
		wg.Wait()
	})
}

// A lock was busy before a majority became unreachable. Whether it still is, is then unknown.
func TestACallWithoutAMajorityFailsWithUnavailableNotBusy(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, q := b.process().warm(), b.process().warm()
		_, hold := lock(b.T, q, "item")
		waits := p.call("item", lockmw.WithWait(10*time.Second))
		p.reaches(0)
		time.Sleep(5 * time.Second)
		if _, _, err := p.TryLock(b.Context(), "item"); !errors.Is(err, lockmw.ErrUnavailable) {
			b.Errorf("TryLock: %v, want ErrUnavailable", err)
		}
		if <-waits.done; !errors.Is(waits.err, lockmw.ErrUnavailable) {
			b.Errorf("Lock: %v, want ErrUnavailable", waits.err)
		}
		usertest.Unlock(b, hold)
	})
}

// Each of two processes reaches three nodes of five, and one node is common to both. They exclude each other, and both continue.
func TestAPartitionWithTwoOverlappingMajorities(t *testing.T) {
	inBubble(t, 5, func(b *bubble) {
		left, right := b.process().warm(), b.process().warm()
		left.reaches(0, 1, 2)
		right.reaches(2, 3, 4)
		rec := recording.NewRecorder(time.Second)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		turns := make([]int, 2)
		for i, p := range []*process{left, right} {
			p.repeat(ctx, &wg, 1, func(ctx context.Context) {
				_, held, err := rec.Lock(ctx, p, "item")
				if err != nil {
					return // the end
				}
				time.Sleep(100 * time.Millisecond)
				if turns[i]++; held.Unlock() != nil {
					b.Errorf("the reachable nodes have not confirmed a release")
				}
			})
		}
		time.Sleep(10 * time.Second)
		cancel()
		wg.Wait()
		for _, v := range rec.Violations() {
			b.Error(v)
		}
		if min(turns[0], turns[1]) < 3 {
			b.Errorf("%d turns within 10 s", turns)
		}
	})
}

// A partition leaves a holder with two nodes of five. Others get the lock after its hold has ended, not before.
func TestAHoldThatIsCutOffIsFollowedWhenItsLeaseExpires(t *testing.T) {
	const lease = 3 * time.Second
	for _, first := range []int{0, 3} {
		inBubble(t, 5, func(b *bubble) {
			few, most := b.process().warm(), b.process().warm()
			key := firstAt(uint32(first), 5)
			ctx, hold := lock(b.T, few, key, lockmw.WithLease(lease))
			next := most.call(key)
			time.Sleep(2 * lease) // the hold is renewed
			few.reaches(0, 1)
			most.reaches(2, 3, 4)
			parted := time.Now()
			<-ctx.Done()
			if next.returned() {
				b.Error("two hold the lock")
			}
			if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
				b.Errorf("the cause is %v, want ErrLost", cause)
			}
			<-next.done
			if took := time.Since(parted); next.err != nil || took > lease+time.Second {
				b.Fatalf("the next one: %v, %v after the partition", next.err, took)
			}
			if next.hold.Token() <= hold.Token() {
				b.Errorf("token %d after %d", next.hold.Token(), hold.Token())
			}
			few.reaches(0, 1, 2, 3, 4) // commands sent in the meantime arrive or are given up
			most.reaches(0, 1, 2, 3, 4)
			if _, _, err := few.TryLock(b.Context(), key); !errors.Is(err, lockmw.ErrBusy) {
				b.Errorf("a try after the partition: %v, want ErrBusy", err)
			}
			if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
				b.Errorf("Unlock of the lost hold: %v, want ErrLost", err)
			}
			usertest.Unlock(b, next.hold)
			_, again := lock(b.T, few, key)
			usertest.Unlock(b, again)
		})
	}
}

// All connections are half-open for a while. A waiting call gets the lock after they recover.
func TestCallsOutliveNodesThatAreAllHalfOpen(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		p.reaches()
		waits := p.call("item")
		time.Sleep(time.Minute)
		if waits.returned() {
			b.Fatalf("the call has returned: %v", waits.err)
		}
		p.reaches(0, 1, 2)
		healed := time.Now()
		<-waits.done
		if took := time.Since(healed); waits.err != nil || took > 2*time.Second {
			b.Fatalf("the lock is taken %v after the nodes recovered: %v", took, waits.err)
		}
		usertest.Unlock(b, waits.hold)
	})
}
