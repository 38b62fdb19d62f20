package inproc_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
)

const soon = 750 * time.Millisecond

func TestACallLearnsItsPosition(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write(owner("holder"))
		calls := []*call{r.write(), r.read(), r.write(owner("next")), r.read(), r.write()}
		for i, c := range calls {
			w := c.reported().contended[0]
			if len(c.reported().contended) != 1 || w.Position != i+1 || w.Queued != i+1 || w.Holders[0].Owner != "holder" {
				t.Errorf("what was reported to call %d is %+v", i+1, c.reported().contended)
			}
		}
		r.giveUp(calls[0])
		r.release(holder)
		r.release(calls[1], calls[3])
		r.holds(calls[2])
		pass(soon)
		if w := calls[4].reported().moves; len(w) != 1 || w[0].Position != 1 || w[0].Queued != 1 || w[0].Holders[0].Owner != "next" {
			t.Errorf("what was reported to the last call is %+v", w)
		}
		for _, c := range calls[:4] {
			if len(c.reported().moves) > 0 {
				t.Errorf("%+v was reported to a call that no longer waits", c.reported().moves)
			}
		}
		r.release(calls[2], calls[4])
	})
}

func TestSomeOfManyHoldersAreReported(t *testing.T) {
	bubble(t, func(r *rig) {
		readers := make([]*call, 100)
		for i := range readers {
			readers[i] = r.read()
		}
		writer := r.write()
		if n := len(writer.reported().contended[0].Holders); n != 8 {
			t.Errorf("%d holders were reported", n)
		}
		r.release(readers...)
		r.release(writer)
	})
}

func TestOnlyWaitersThatMovedAreNotified(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		before, gone, behind := r.write(), r.write(), r.write()
		pass(time.Hour)
		r.giveUp(gone)
		pass(soon)
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		first := r.write()
		r.giveUp(first)
		pass(soon)
		for c, want := range map[*call][]int{before: {1}, behind: {3, 2}} {
			if got := c.positions(); !slices.Equal(got, want) {
				t.Errorf("the positions reported to a call are %v, want %v", got, want)
			}
		}
		r.release(holder)
		r.inOrder(before, behind)
		pass(time.Minute)
	})
}

func TestWaitersBehindAKeptPlaceAreNotified(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		behind := r.write()
		back := r.write(place("task", time.Minute))
		pass(soon)
		if got := behind.positions(); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("the positions reported to the call behind are %v", got)
		}
		r.release(holder)
		r.inOrder(back, behind)
	})
}

func TestManyMovesAreReportedAsOne(t *testing.T) {
	bubble(t, func(r *rig) {
		const n = 100
		holder := r.write()
		calls := make([]*call, n)
		for i := range calls {
			calls[i] = r.write()
		}
		r.release(holder)
		for _, c := range calls[:n-1] {
			pass(10 * time.Millisecond)
			r.release(c)
		}
		last := calls[n-1]
		if got := last.positions(); len(got) != 2 || got[1] >= n/2 {
			t.Errorf("in 990 ms the positions reported to the last call are %v", got)
		}
		r.release(last)
	})
}

func TestAfterASlowEventOnlyTheLatestMoveIsReported(t *testing.T) {
	bubble(t, func(r *rig) {
		holder, resume := r.write(), make(chan struct{})
		one, two := r.write(), r.write()
		last := r.write(onEvent(func() { <-resume }))
		for _, c := range []*call{one, two} {
			r.giveUp(c)
			pass(soon)
		}
		close(resume)
		synctest.Wait()
		if got := last.positions(); !slices.Equal(got, []int{3, 1}) {
			t.Errorf("the positions reported to the call are %v", got)
		}
		r.release(holder, last)
	})
}

func TestNoPositionIsReportedToACallThatHasTheLock(t *testing.T) {
	for range 50 {
		bubble(t, func(r *rig) {
			holder, resume := r.write(), make(chan struct{})
			before := r.write()
			c := r.write(onEvent(func() { <-resume }))
			r.giveUp(before)
			pass(soon)
			r.release(holder)
			close(resume)
			r.release(c)
			if got := c.positions(); !slices.Equal(got, []int{2}) {
				t.Errorf("the positions reported to the call are %v", got)
			}
		})
	}
}

func TestEventsComeWithoutLocksHeld(t *testing.T) {
	bubble(t, func(r *rig) {
		var events int
		acquire := onEvent(func() { // it blocks forever if the lock's own mutex is held
			events++
			_, _ = r.Acquire(context.Background(), &core.Request{Key: key, Mode: core.Write})
		})
		holder := r.write(fixed(time.Hour), acquire)
		first, second := r.write(), r.write(acquire)
		r.giveUp(first)
		pass(time.Hour)
		third := r.write(acquire)
		r.Expire(key)
		r.holds(third)
		r.release(third)
		if events != 5 || len(holder.reported().losses) != 1 || len(second.reported().losses) != 1 {
			t.Errorf("%d events, want 5", events)
		}
	})
}

// Each hand-off passes the lock to one goroutine, which queues again.
func BenchmarkHandOff(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprint("waiters=", n), func(b *testing.B) { benchmarkHandOff(b, n) })
	}
}

func benchmarkHandOff(b *testing.B, n int) {
	var l inproc.Locks
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left, queued := b.N, make(chan struct{}, n)
	request := func() *core.Request {
		return &core.Request{Key: key, Mode: core.Write, Wait: core.Forever, Events: arrival(queued)}
	}
	holder, err := l.Acquire(ctx, request())
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				h, err := l.Acquire(ctx, request())
				if err != nil {
					return
				}
				if left--; left == 0 {
					b.StopTimer()
					cancel()
				}
				_, _ = h.Release(0)
			}
		})
		<-queued
	}
	b.ResetTimer()
	_, _ = holder.Release(0)
	wg.Wait()
}

// An arrival is notified when a call waits, unless it is full.
type arrival chan struct{}

func (a arrival) Contended(core.Wait) {
	select {
	case a <- struct{}{}:
	default:
	}
}
func (arrival) Waiting(core.Wait) {}

func (arrival) SelfWait(core.LocalHold)             {}
func (arrival) IsForgotten() bool                   { return false }
func (arrival) Renewed(error)                       {}
func (arrival) Forgotten(core.LocalHold, time.Time) {}
func (arrival) Lost(error)                          {}
func (arrival) ShuttingDown()                       {}
