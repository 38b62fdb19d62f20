package inproc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestALossLetsTheNextPhaseIn(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.write()
		second, one, two := r.write(), r.read(), r.read()
		r.Expire(key)
		r.holds(one, two)
		r.wait(second)
		late := r.read()
		r.Expire(key)
		r.holds(second)
		r.wait(late)
		r.release(second, late)
		for _, c := range []*call{first, one, two} {
			_, err := c.hold.Release(0)
			r.is("Release of a lost hold", err, core.ErrLost)
			r.is("Extend of a lost hold", c.hold.Extend(context.Background(), time.Minute), core.ErrLost)
			if len(c.reported().losses) != 1 || !c.hold.Expired() {
				t.Errorf("the losses reported to the holder are %v", c.reported().losses)
			}
		}
		if len(second.reported().losses)+len(late.reported().losses) > 0 {
			t.Error("the losses of others were reported to holders")
		}
	})
}

func TestALostReaderFreesOnlyItsOwnShare(t *testing.T) {
	bubble(t, func(r *rig) {
		lost, reader, writer := r.read(fixed(time.Second)), r.read(maxHold(time.Minute)), r.write()
		pass(time.Second)
		if len(lost.reported().losses) != 1 {
			t.Error("the fixed lease did not run out")
		}
		r.holds(reader)
		r.wait(writer)
		pass(time.Minute)
		r.holds(writer)
		r.release(writer)
	})
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

func TestAHoldIsLostAtItsDeadlineEvenIfItsTimerIsLate(t *testing.T) {
	for range 100 {
		bubble(t, func(r *rig) {
			c := r.write(fixed(time.Second))
			next := r.write(minHold(time.Second))
			time.Sleep(time.Second) // the timer is due as well
			r.is("Downgrade", c.hold.Downgrade(context.Background()), core.ErrLost)
			_, err := c.hold.Release(0)
			r.is("Release", err, core.ErrLost)
			r.release(next)
			pass(time.Second)
		})
	}
}

func TestReleaseTwice(t *testing.T) {
	bubble(t, func(r *rig) {
		c, next := r.write(), r.write()
		r.release(c)
		_, err := c.hold.Release(0)
		r.is("the second Release", err, core.ErrNotHeld)
		r.is("Extend after Release", c.hold.Extend(context.Background(), time.Minute), core.ErrNotHeld)
		r.failed(r.read(try), core.ErrBusy)
		r.release(next)
	})
}

func TestReleaseCountsWaiters(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write()
		waiting := []*call{r.write(), r.read(), r.read()}
		r.failed(r.read(maxWaiters(3)), core.ErrTooManyWaiters)
		if n, _ := c.hold.Release(0); n != 3 {
			t.Errorf("%d wait, want 3", n)
		}
		r.release(waiting[1], waiting[2], waiting[0])
	})
}

func TestAMinimumHoldKeepsTheKeyTaken(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write(minHold(time.Second))
		r.release(c)
		_, err := c.hold.Release(0)
		r.is("the second Release", err, core.ErrNotHeld)
		writer, reader := r.write(), r.read()
		pass(999 * time.Millisecond)
		r.wait(writer, reader)
		pass(time.Millisecond)
		r.holds(reader) // as after any writer
		r.wait(writer)
		r.release(reader, writer)

		c = r.write(minHold(time.Second))
		pass(2 * time.Second)
		r.release(c, r.write())
	})
}

func TestAMinimumHoldOfAReaderKeepsOutWriters(t *testing.T) {
	bubble(t, func(r *rig) {
		r.release(r.read(minHold(time.Second)), r.read(minHold(3*time.Second)))
		joined := r.read()
		r.holds(joined)
		r.release(joined)
		writer := r.write()
		pass(2999 * time.Millisecond)
		r.wait(writer)
		pass(time.Millisecond)
		r.release(writer)
	})
}

func TestExpireEndsAMinimumHold(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write(minHold(time.Second))
		r.release(c)
		r.Expire(key)
		next := r.write()
		r.holds(next)
		pass(time.Second)
		r.failed(r.write(try), core.ErrBusy)
		r.release(next)
		if len(c.reported().losses) > 0 {
			t.Error("a hold was lost after its release")
		}
	})
}

func TestExpireInTheInstantInWhichAMinimumHoldEnds(t *testing.T) {
	for range 20 {
		bubble(t, func(r *rig) {
			r.release(r.write(minHold(time.Second)))
			one, two := r.read(), r.read()
			time.Sleep(time.Second) // the timer is due as well
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
