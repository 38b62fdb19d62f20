package inproc_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/race"
)

func TestMain(m *testing.M) { leak.VerifyMain(m.Run) }

const key = "item:7"

// A rig is locks of which one key is used.
type rig struct {
	t interface {
		Helper()
		Errorf(format string, args ...any)
		Fatalf(format string, args ...any)
	}
	inproc.Locks
	ctx context.Context // of all calls, so that none is left when a test has failed
}

// bubble runs a test in which time passes immediately, and checks that nothing of the key is left.
func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r := &rig{t: t, ctx: ctx}
		test(r)
		synctest.Wait()
		if n := r.Keys(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// A call is one request, and its outcome.
type call struct {
	r      *rig
	req    core.Request
	cancel context.CancelFunc
	done   chan struct{} // closed when Acquire has returned
	hold   core.Hold
	err    error

	onEvent func() // may be nil
	mu      sync.Mutex
	events  events
}

// events are the reports to a call.
type events struct {
	contended, moves []core.Wait
	losses           []error
}

func (c *call) reported() events {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events
}

func (c *call) note(f func(e *events)) {
	if c.onEvent != nil {
		c.onEvent()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.events)
}

func (c *call) Contended(w core.Wait) {
	c.note(func(e *events) { e.contended = append(e.contended, w) })
}
func (c *call) SelfWait(core.LocalHold) {}
func (c *call) IsForgotten() bool       { return false }

func (c *call) Forgotten(core.LocalHold, time.Time) { c.r.t.Errorf("a forgotten hold was reported") }

func (c *call) Waiting(w core.Wait) { c.note(func(e *events) { e.moves = append(e.moves, w) }) }
func (c *call) Lost(err error)      { c.note(func(e *events) { e.losses = append(e.losses, err) }) }
func (c *call) Renewed(error)       { c.r.t.Errorf("a renewal was reported") }
func (c *call) ShuttingDown()       {}

// An option changes a request before it is made.
type option func(c *call)

func try(c *call)                    { c.req.Wait = 0 }
func within(d time.Duration) option  { return func(c *call) { c.req.Wait = d } }
func fixed(d time.Duration) option   { return func(c *call) { c.req.Lease, c.req.Fixed = d, true } }
func minHold(d time.Duration) option { return func(c *call) { c.req.MinHold = d } }
func maxHold(d time.Duration) option { return func(c *call) { c.req.MaxHold = d } }
func owner(name string) option       { return func(c *call) { c.req.Owner = name } }
func place(name string, d time.Duration) option {
	return func(c *call) { c.req.Place, c.req.KeepPlace = name, d }
}
func onEvent(f func()) option { return func(c *call) { c.onEvent = f } }

// write and read start a call, and return when it has the lock, has failed or waits.
func (r *rig) write(opts ...option) *call { return r.settled(core.Write, opts) }
func (r *rig) read(opts ...option) *call  { return r.settled(core.Read, opts) }

func (r *rig) settled(mode core.Mode, opts []option) *call {
	c := r.start(mode, opts...)
	synctest.Wait()
	return c
}

func (r *rig) start(mode core.Mode, opts ...option) *call {
	c := &call{r: r, done: make(chan struct{})}
	c.req = core.Request{Key: key, Mode: mode, Wait: core.Forever, Lease: time.Minute, WantsMoves: true, Events: c}
	for _, opt := range opts {
		opt(c)
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(r.ctx)
	go func() {
		defer close(c.done)
		defer c.cancel()
		c.hold, c.err = r.Acquire(ctx, &c.req)
	}()
	return c
}

func (c *call) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// holds checks that calls have the lock.
func (r *rig) holds(calls ...*call) {
	r.t.Helper()
	synctest.Wait()
	for i, c := range calls {
		switch {
		case !c.returned():
			r.t.Fatalf("call %d of %d waits", i+1, len(calls))
		case c.err != nil:
			r.t.Fatalf("call %d of %d: %v", i+1, len(calls), c.err)
		}
	}
}

// wait checks that calls have not returned.
func (r *rig) wait(calls ...*call) {
	r.t.Helper()
	synctest.Wait()
	for i, c := range calls {
		if c.returned() {
			r.t.Errorf("call %d of %d has returned: %v", i+1, len(calls), c.err)
		}
	}
}

// failed checks that a call has returned with an error.
func (r *rig) failed(c *call, want error) {
	r.t.Helper()
	synctest.Wait()
	if !c.returned() {
		r.t.Errorf("the call waits, want %v", want)
	} else {
		r.is("the call", c.err, want)
	}
}

func (r *rig) is(what string, err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// release ends holds one after the other.
func (r *rig) release(calls ...*call) {
	r.t.Helper()
	for _, c := range calls {
		r.holds(c)
		_, err := c.hold.Release(0)
		r.is("Release", err, nil)
	}
	synctest.Wait()
}

// giveUp cancels calls.
func (r *rig) giveUp(calls ...*call) {
	r.t.Helper()
	for _, c := range calls {
		c.cancel()
		r.failed(c, core.ErrBusy)
		r.failed(c, context.Canceled)
	}
}

func (r *rig) downgrade(c *call) {
	r.t.Helper()
	r.is("Downgrade", c.hold.Downgrade(context.Background()), nil)
	synctest.Wait()
}

// inOrder checks that calls for writing get the lock one after the other, and releases them.
func (r *rig) inOrder(calls ...*call) {
	r.t.Helper()
	for i, c := range calls {
		r.wait(calls[i+1:]...)
		r.release(c)
	}
}

// positions returns the positions that were reported to a call.
func (c *call) positions() []int {
	events := c.reported()
	var all []int
	for _, w := range slices.Concat(events.contended, events.moves) {
		all = append(all, w.Position)
	}
	return all
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
