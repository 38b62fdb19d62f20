package inproc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestAHoldIsLostAtItsDeadlineEvenIfItsTimerIsLate(t *testing.T) {
	for range 100 {
		bubble(t, func(r *rig) {
			c := r.write(fixed(time.Second))
			next := r.write(minHold(time.Second))
			time.Sleep(time.Second) // the timer is also due
			r.is("Downgrade", c.hold.Downgrade(context.Background()), core.ErrLost)
			_, err := c.hold.Release(0)
			r.is("Release", err, core.ErrLost)
			r.release(next)
			pass(time.Second)
		})
	}
}

func TestExpireInTheInstantInWhichAMinimumHoldEnds(t *testing.T) {
	for range 20 {
		bubble(t, func(r *rig) {
			r.release(r.write(minHold(time.Second)))
			one, two := r.read(), r.read()
			time.Sleep(time.Second) // the timer is also due
			r.Expire(key)
			synctest.Wait()
			lost := len(one.reported().losses) + len(two.reported().losses)
			if lost == 0 {
				r.failed(r.write(try), core.ErrBusy)
				r.release(one, two)
			}
		})
	}
}

func TestACallThatIsCancelledInTheInstantOfItsGrantPassesItOn(t *testing.T) {
	var cancelled int
	for range 50 {
		bubble(t, func(r *rig) {
			c, resume := r.write(), make(chan struct{})
			first := r.write(minHold(time.Hour), place("task", time.Minute), onEvent(func() { <-resume }))
			next := r.write()
			r.release(c) // to the first one, whose event has not returned
			r.wait(first, next)
			first.cancel()
			close(resume)
			<-first.done
			if first.err == nil {
				r.release(first)
				pass(time.Hour)
				r.release(next)
				return
			}
			cancelled++
			r.holds(next) // without having to wait for the minimum hold of a call that never had the lock
			behind := r.write()
			back := r.write(place("task", time.Minute))
			r.release(next)
			r.inOrder(back, behind)
		})
	}
	if cancelled == 0 {
		t.Error("no call ended without the lock")
	}
}

func TestExtendMovesTheDeadline(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write(fixed(time.Second), maxHold(3*time.Second))
		pass(900 * time.Millisecond)
		r.is("Extend", c.hold.Extend(context.Background(), 2*time.Second), nil)
		pass(1900 * time.Millisecond)
		if c.hold.Expired() {
			t.Error("the hold is lost in spite of Extend")
		}
		r.is("Extend", c.hold.Extend(context.Background(), 2*time.Second), nil)
		pass(200 * time.Millisecond)
		if !c.hold.Expired() {
			t.Error("Extend has moved the end of the longest hold")
		}
	})
}

func TestAMinimumHoldOutlastsASecondRelease(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write(minHold(time.Second))
		r.release(c)
		_, err := c.hold.Release(0)
		r.is("the second Release", err, core.ErrNotHeld)
		r.failed(r.write(try), core.ErrBusy)
		pass(time.Second)
	})
}
