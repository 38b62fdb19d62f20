package inproc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestACallComesBackToItsPlace(t *testing.T) {
	for name, leave := range map[string]func(r *rig) *call{
		"after a try":      func(r *rig) *call { return r.write(try, place("task", time.Minute)) },
		"after a time-out": func(r *rig) *call { return r.write(within(time.Second), place("task", time.Minute)) },
		"after a cancel": func(r *rig) *call {
			c := r.write(place("task", time.Minute))
			go func() {
				time.Sleep(time.Second)
				c.cancel()
			}()
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				holder, before := r.write(), r.write()
				gone := leave(r)
				behind := r.write()
				pass(time.Second)
				r.failed(gone, core.ErrBusy)
				pass(time.Minute - time.Nanosecond - time.Second)
				back := r.write(place("task", time.Minute))
				r.release(holder)
				r.inOrder(before, back, behind)
			})
		})
	}
}

func TestTheLockPassesOverAPlaceWhoseCallerIsAway(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		one, two, three := r.write(), r.write(), r.write()
		r.release(holder)
		r.release(one)
		back := r.write(place("task", time.Minute))
		r.release(two)
		r.inOrder(back, three)
		late := r.write(try, place("task", time.Minute))
		r.release(late) // the lock is free
	})
}

func TestATryKeepsTheSamePlaceAgain(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		for range 5 {
			r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
			pass(time.Minute / 2)
		}
		behind := r.write()
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		back := r.write(place("task", time.Minute))
		r.release(holder)
		r.inOrder(back, behind)
	})
}

func TestAPlaceIsKeptForALimitedTime(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		r.failed(r.write(try, place("other", 2*time.Minute)), core.ErrBusy)
		behind := r.write()
		pass(time.Minute)
		back, other := r.write(place("task", time.Minute)), r.write(place("other", time.Minute))
		r.release(holder)
		r.inOrder(other, behind, back)
	})
}

func TestAPlaceIsOverAtItsTimeEvenIfItsTimerIsLate(t *testing.T) {
	for range 20 {
		bubble(t, func(r *rig) {
			holder := r.write()
			r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
			behind := r.write()
			time.Sleep(time.Minute) // the timer is due as well
			back := r.start(core.Write, place("task", time.Minute))
			synctest.Wait()
			last := r.write()
			twin := r.write(place("task", time.Minute))
			r.release(holder)
			r.inOrder(behind, back, twin, last)
		})
	}
}

func TestAPlaceDoesNotEndWhileItsCallWaits(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		back := r.write(place("task", time.Minute))
		behind := r.write()
		pass(time.Hour)
		twin := r.write(place("task", time.Minute)) // shares the place, and stands behind the first
		r.giveUp(back)
		back = r.write(place("task", time.Minute))
		r.release(holder)
		r.inOrder(twin, back, behind)
	})
}

func TestAPlaceEndsWhenItsHoldIsReleased(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		had := r.write(place("task", time.Hour))
		behind := r.write()
		r.release(holder, had)
		back := r.write(place("task", time.Hour))
		last := r.write()
		r.release(behind)
		r.inOrder(back, last)
		// bubble checks that there is nothing left, although the hour is not over
	})
}

func TestAPlaceEndsWhenItsHoldIsLost(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		lost := r.write(place("task", time.Minute), fixed(time.Second))
		next, behind := r.write(), r.write()
		r.release(holder)
		r.holds(lost)
		pass(time.Second)
		r.holds(next)
		back := r.write(place("task", time.Minute))
		r.release(next)
		r.inOrder(behind, back)
	})
}

func TestAPlaceIsOfOneKey(t *testing.T) {
	bubble(t, func(r *rig) {
		elsewhere := func(c *call) { c.req.Key = "another" }
		holder, other := r.write(), r.write(elsewhere)
		r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
		before := r.write(elsewhere)
		back := r.write(elsewhere, place("task", time.Minute))
		r.release(other)
		r.inOrder(before, back)
		r.release(holder)
		pass(time.Minute)
	})
}

func TestAReaderKeepsItsPlaceBehindAWriterThatWaits(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.write()
		r.failed(r.read(try, place("task", time.Minute)), core.ErrBusy)
		r.release(first)
		reader, writer := r.read(), r.write()
		back := r.read(place("task", time.Minute))
		r.wait(writer, back) // it would begin a phase of its own otherwise
		if w := back.reported().contended[0]; w.Position != 1 || w.Queued != 2 {
			t.Errorf("the reader stands at %d of %d", w.Position, w.Queued)
		}
		r.release(reader)
		r.wait(back)
		r.release(writer, back)
	})
}

func TestNothingIsLeftOfPlaces(t *testing.T) {
	bubble(t, func(r *rig) {
		holder := r.write()
		for _, id := range []string{"a", "b", "c"} {
			r.failed(r.write(try, place(id, time.Minute)), core.ErrBusy)
			reader := r.read(within(time.Minute), place(id, time.Hour))
			pass(time.Minute)
			r.failed(reader, core.ErrBusy)
		}
		lost := r.write(place("d", time.Minute))
		r.release(holder)
		r.holds(lost)
		r.Expire(key)
		pass(time.Hour - time.Nanosecond)
		if r.Keys() != 1 {
			t.Error("the last place is not kept")
		}
		pass(time.Nanosecond) // there is no other sign that an hour is over
	})
}
