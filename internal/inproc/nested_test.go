package inproc_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
)

// A chainOf is the chain of a hold's context.
type chainOf struct{ *call }

func (c chainOf) Live() []core.Held { return []core.Held{{Hold: c.hold, Key: c.req.Key}} }

func (c chainOf) Within(core.Scope) core.Chain { return c }

// below starts a call whose context has the hold of another one.
func (r *rig) below(outer *call, opts ...option) *call {
	r.holds(outer)
	before := r.ctx
	defer func() { r.ctx = before }()
	r.ctx = context.WithValue(r.ctx, core.ChainKey{}, chainOf{outer})
	return r.write(opts...)
}

func on(key string) option { return func(c *call) { c.req.Key = key } }
func leads(c *call)        { c.req.Leads = true }
func once(c *call)         { c.req.Once = true }
func looks(c *call)        { c.req.Detect = time.Second }

// cycle makes two calls wait for one another, and lets a minute pass.
func (r *rig) cycle(opts ...option) (a, b, wantsA, wantsB *call) {
	r.t.Helper()
	a, b = r.write(on("a")), r.write(on("b"))
	wantsB = r.below(a, append(opts, on("b"))...)
	wantsA = r.below(b, append(opts, on("a"))...)
	r.wait(wantsA, wantsB)
	pass(time.Minute)
	return a, b, wantsA, wantsB
}

// Leaders and jobs are expected to wait for long, and a wait without detection is never ended.
func TestLeadersJobsAndWaitsWithoutDetectionAreNotEnded(t *testing.T) {
	for name, opts := range map[string][]option{"leaders": {looks, leads}, "jobs": {looks, once}, "who does not look": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				a, b, wantsA, wantsB := r.cycle(opts...)
				r.wait(wantsA, wantsB)
				r.release(a, b, wantsA, wantsB)
			})
		})
	}
}

// A wait is checked again: after its first check, a call without detection closes the cycle. No wait is ended before that.
func TestAWaitIsCheckedRepeatedly(t *testing.T) {
	bubble(t, func(r *rig) {
		a, b := r.write(on("a")), r.write(on("b"))
		wantsA := r.below(b, on("a"), looks)
		pass(2 * time.Second)
		wantsB := r.below(a, on("b"))
		pass(8 * time.Second)
		r.wait(wantsA, wantsB)
		pass(2 * time.Second)
		r.failed(wantsA, core.ErrDeadlock)
		r.release(a, b, wantsB)
	})
}

// A key with too many holders is assumed to become free.
func TestAKeyWithTooManyHoldersIsNotExamined(t *testing.T) {
	for holders, deadlocks := range map[int]int{deadlock.MaxHolders: 1, deadlock.MaxHolders + 1: 0} {
		bubble(t, func(r *rig) {
			other := r.write(on("other"))
			var readers []*call
			for range holders {
				readers = append(readers, r.read())
			}
			wantsOther := r.below(readers[0], looks, on("other"))
			wantsKey := r.below(other, looks)
			pass(time.Minute)
			found := 0
			for _, c := range []*call{wantsOther, wantsKey} {
				if c.returned() {
					r.failed(c, core.ErrDeadlock)
					found++
				}
			}
			if found != deadlocks {
				r.t.Errorf("%d holders: %d calls were ended, want %d", holders, found, deadlocks)
			}
			r.release(readers...)
			r.release(other)
			for _, c := range []*call{wantsOther, wantsKey} {
				if c.err == nil {
					r.release(c)
				}
			}
		})
	}
}

// However a nested wait ends, it is removed from the registry.
func TestNothingOfANestedWaitIsLeft(t *testing.T) {
	bubble(t, func(r *rig) {
		a, b := r.write(on("a")), r.write(on("b"))
		granted, timed, cancelled := r.below(a, looks, on("b")), r.below(a, looks, on("b"), within(time.Second)), r.below(a, looks, on("b"))
		want := func(n int) {
			r.t.Helper()
			if got, _ := deadlock.Shared.Len(); got != n {
				r.t.Errorf("%d waits are registered, want %d", got, n)
			}
		}
		want(3)
		pass(time.Second)
		r.failed(timed, core.ErrBusy)
		want(2)
		r.giveUp(cancelled)
		want(1)
		r.release(b, granted)
		want(0)
		r.release(a)
	})
}
