package inproc_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lockmw/go/internal/core"
)

// permit starts a call for permits of weight w, of n, as write does.
func (r *rig) permit(n, w int, opts ...option) *call {
	return r.settled(core.Permit, append(opts, func(c *call) { c.req.Permits, c.req.Weight = n, w }))
}

// slots checks which slots a call has.
func (r *rig) slots(c *call, want ...int) {
	r.t.Helper()
	r.holds(c)
	if got := c.hold.(core.PermitHold).Slots(); !slices.Equal(got, want) {
		r.t.Errorf("the slots are %v, want %v", got, want)
	}
}

// No call overtakes a heavy call at the head, even if it would fit.
func TestPermitsAreGrantedInTheOrderOfTheQueue(t *testing.T) {
	bubble(t, func(r *rig) {
		a, b, c := r.permit(4, 2), r.permit(4, 1), r.permit(4, 1)
		heavy, one, two := r.permit(4, 3), r.permit(4, 1), r.permit(4, 1)
		r.release(b)
		r.wait(heavy, one, two)
		r.release(a)
		r.holds(heavy)
		r.wait(one, two)
		r.release(heavy)
		r.holds(one, two)
		r.release(c, one, two)
	})
}

func TestAPermitIsGrantedByItsOwnN(t *testing.T) {
	bubble(t, func(r *rig) {
		a := r.permit(1, 1)
		b, c, d := r.permit(1, 1), r.permit(3, 1), r.permit(3, 1) // c would fit, and waits for its turn
		r.wait(b, c, d)
		r.release(a)
		r.holds(b, c, d)
		e := r.permit(1, 1)
		r.release(b, c)
		r.wait(e)
		r.release(d)
		r.release(e)
	})
}

func TestSlotsThatWereGivenBackAreUsedAgain(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls []*call
		for i := range 6 {
			c := r.permit(8, 1)
			r.slots(c, i)
			calls = append(calls, c)
		}
		r.release(calls[1], calls[3], calls[4])
		heavy := r.permit(8, 5)
		r.slots(heavy, 1, 3, 4, 6, 7)
		heavy.hold.(core.PermitHold).Slots()[0] = 5 // a copy for the caller
		r.slots(heavy, 1, 3, 4, 6, 7)
		busy := r.permit(8, 1, try)
		r.failed(busy, core.ErrBusy)
		var e *core.AcquireError
		if !errors.As(busy.err, &e) || !slices.ContainsFunc(e.Holders, func(h core.Holder) bool { return h.Weight == 5 && h.Slots == "1,3-4,6-7" }) {
			t.Errorf("the holders in the way: %+v", e)
		}
		r.release(heavy, calls[0], calls[2], calls[5])
	})
}
