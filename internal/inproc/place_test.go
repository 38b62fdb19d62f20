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

func TestAPlaceExpiresOnTimeEvenIfItsTimerIsLate(t *testing.T) {
	for range 20 {
		bubble(t, func(r *rig) {
			holder := r.write()
			r.failed(r.write(try, place("task", time.Minute)), core.ErrBusy)
			behind := r.write()
			time.Sleep(time.Minute) // the timer is also due
			back := r.start(core.Write, place("task", time.Minute))
			synctest.Wait()
			last := r.write()
			twin := r.write(place("task", time.Minute))
			r.release(holder)
			r.inOrder(behind, back, twin, last)
		})
	}
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
