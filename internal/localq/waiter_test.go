package localq

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A stand is a Line that records its calls.
type stand struct {
	sync.Mutex
	inVain   error
	inTheWay *core.LocalHold

	left     []*Waiter
	gaveBack []core.Hold
}

func (s *stand) Busy() *core.AcquireError               { return Busy(nil) }
func (s *stand) WaitFailed(*Waiter) *core.AcquireError  { return &core.AcquireError{Err: s.inVain} }
func (s *stand) Leave(w *Waiter)                        { s.left = append(s.left, w) }
func (s *stand) GiveBack(h core.Hold)                   { s.gaveBack = append(s.gaveBack, h) }
func (s *stand) LocalBlocker() *core.LocalHold          { return s.inTheWay }
func (s *stand) finish(w *Waiter, h core.Hold, e error) { s.Lock(); w.Finish(h, e); s.Unlock() }

// A caller records its events.
type caller struct {
	core.Events
	contended, moved []int // positions
	stalled          []int64
}

func (c *caller) Contended(w core.Wait)     { c.contended = append(c.contended, w.Position) }
func (c *caller) Waiting(w core.Wait)       { c.moved = append(c.moved, w.Position) }
func (c *caller) SelfWait(h core.LocalHold) { c.stalled = append(c.stalled, h.Token) }

type someHold struct{ core.Hold }

func newWaiter(ctx context.Context, edit func(r *core.Request)) (*Waiter, *caller) {
	c := &caller{}
	r := &core.Request{Wait: core.Forever, WantsMoves: true, Events: c}
	edit(r)
	return NewWaiter(ctx, r, clock.Now()), c
}

func ordinary(*core.Request) {}

var errVain = errors.New("in vain")

func TestHowAWaitEnds(t *testing.T) {
	h, refused := &someHold{}, errors.New("refused")
	for name, test := range map[string]struct {
		ended    bool // its context has ended
		edit     func(r *core.Request)
		before   func(w *Waiter)
		deadlock bool
		hold     core.Hold
		errs     []error // wrapped by its error
		leaves   bool
	}{
		"by a hold":              {false, ordinary, func(w *Waiter) { w.Finish(h, nil) }, false, h, nil, false},
		"by an error":            {false, ordinary, func(w *Waiter) { w.Finish(nil, refused) }, false, nil, []error{refused}, false},
		"by its context":         {true, ordinary, func(*Waiter) {}, false, nil, []error{errVain, context.Canceled}, true},
		"by its limit":           {false, func(r *core.Request) { r.Wait = time.Second }, func(*Waiter) {}, false, nil, []error{errVain}, true},
		"of a try, by patience":  {false, func(r *core.Request) { r.Wait = 0 }, func(*Waiter) {}, false, nil, []error{errVain}, true},
		"by a deadlock":          {false, ordinary, func(*Waiter) {}, true, nil, []error{core.ErrDeadlock, core.ErrBusy}, true},
		"by one that comes late": {false, func(r *core.Request) { r.Wait = time.Hour }, func(*Waiter) {}, true, nil, []error{core.ErrDeadlock}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stand{inVain: errVain}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.ended {
					cancel()
				}
				w, _ := newWaiter(ctx, test.edit)
				test.before(w)
				found := make(chan *core.DeadlockError, 1)
				if test.deadlock {
					found <- &core.DeadlockError{}
				}
				got, err := w.Await(s, nil, found)
				if got != test.hold || (err != nil) != (test.errs != nil) {
					t.Fatalf("it got %v, %v", got, err)
				}
				for _, want := range test.errs {
					if !errors.Is(err, want) {
						t.Errorf("%v is not %v", err, want)
					}
				}
				if slices.Contains(s.left, w) != test.leaves {
					t.Errorf("it has left: %t", !test.leaves)
				}
			})
		})
	}
}

// A wait that ends when its caller gives up, or a deadlock is found, keeps the result that arrived at the same moment.
func TestTheInstantInWhichAWaitEnds(t *testing.T) {
	h, refused := &someHold{}, errors.New("refused")
	for _, ended := range []error{nil, context.Canceled} {
		s := &stand{inVain: errVain}
		w, _ := newWaiter(t.Context(), ordinary)
		s.finish(w, h, nil)
		if err := w.cancel(s, ended); !errors.Is(err, core.ErrBusy) || ended != nil && !errors.Is(err, ended) {
			t.Errorf("giving up with a hold: %v", err)
		}
		if len(s.left) != 0 || len(s.gaveBack) != 1 || s.gaveBack[0] != core.Hold(h) {
			t.Errorf("it left %d times, and gave back %v", len(s.left), s.gaveBack)
		}
		w, _ = newWaiter(t.Context(), ordinary)
		s.finish(w, nil, refused)
		if err := w.cancel(s, ended); err != refused || len(s.left) != 0 {
			t.Errorf("giving up when refused: %v", err)
		}
	}
	for _, test := range []struct {
		hold core.Hold
		err  error
	}{{h, nil}, {nil, refused}} {
		s := &stand{}
		w, _ := newWaiter(t.Context(), ordinary)
		s.finish(w, test.hold, test.err)
		if got, err := w.endDeadlocked(s, &core.DeadlockError{}); got != test.hold || err != test.err || len(s.left) != 0 {
			t.Errorf("in a deadlock it got %v, %v", got, err)
		}
	}
}

func TestACallerIsNotifiedOnceOfItsWaitAndThenOfItsMoves(t *testing.T) {
	s := &stand{}
	w, c := newWaiter(t.Context(), ordinary)
	news := func() {
		if h, err := w.Poll(s); h != nil || err != nil {
			t.Fatal("the wait has ended")
		}
	}
	for _, position := range []int{5, 5, 4} {
		w.Notify(core.Wait{Position: position})
	}
	news() // one signal for all three
	w.Notify(core.Wait{Position: 4})
	w.Notify(core.Wait{Position: 0}) // unknown
	news()
	w.Notify(core.Wait{Position: 3})
	w.Notify(core.Wait{Position: 2})
	news()
	if !slices.Equal(c.contended, []int{5}) && !slices.Equal(c.contended, []int{4}) || !slices.Equal(c.moved, []int{2}) {
		t.Errorf("it was notified of waits %v and moves %v", c.contended, c.moved)
	}
	try, c := newWaiter(t.Context(), func(r *core.Request) { r.Wait = 0 })
	try.Notify(core.Wait{Position: 1})
	if h, err := try.Poll(s); h != nil || err != nil || c.contended != nil {
		t.Error("a call that only tries was notified that it waits")
	}
	told, c := newWaiter(t.Context(), func(r *core.Request) { r.WantsMoves = false })
	told.MarkNotified(core.Wait{Position: 3})
	told.Notify(core.Wait{Position: 2})
	if _, _ = told.Poll(s); c.contended != nil || c.moved != nil {
		t.Errorf("a call that does not want moves was notified of waits %v and moves %v", c.contended, c.moved)
	}
}

func TestACallIsNotifiedOfAHoldOfItsOwnProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := func(edit func(r *core.Request), since time.Duration, after time.Duration) []int64 {
			w, c := newWaiter(t.Context(), edit)
			s := &stand{inTheWay: &core.LocalHold{Token: 7, Since: time.Now().Add(since)}}
			stalled := make(chan struct{})
			time.AfterFunc(after, func() { close(stalled) })
			time.AfterFunc(2*core.SelfWaitAfter, func() { s.finish(w, &someHold{}, nil) })
			_, _ = w.Await(s, stalled, nil)
			return c.stalled
		}
		for name, test := range map[string]struct {
			got  []int64
			want int
		}{
			"that was there before":    {stall(ordinary, -time.Second, core.SelfWaitAfter), 1},
			"that came later":          {stall(ordinary, time.Millisecond, core.SelfWaitAfter), 0},
			"before it has stalled":    {stall(ordinary, -time.Second, core.SelfWaitAfter/2), 0},
			"which has one of permits": {stall(func(r *core.Request) { r.Permits = 2 }, -time.Second, core.SelfWaitAfter), 0},
		} {
			if len(test.got) != test.want {
				t.Errorf("a hold %s: %v", name, test.got)
			}
		}
	})
}

// slowContext has a deadline that it does not notice in time.
type slowContext struct {
	context.Context
	deadline time.Time
}

func (c slowContext) Deadline() (time.Time, bool) { return c.deadline, true }

// One call's expired deadline, noticed by a connection, is not an error of the other calls.
func TestACallWhoseDeadlineHasPassedLeadsNoOthers(t *testing.T) {
	passed, _ := newWaiter(slowContext{t.Context(), time.Now().Add(-time.Second)}, ordinary)
	open, _ := newWaiter(slowContext{t.Context(), time.Now().Add(time.Hour)}, func(r *core.Request) { r.Wait = 0 })
	var q Queue
	q.Push(passed)
	q.Push(open)
	if q.Leader() != open || q.Len != 2 || q.Tries != 1 || open.Seq != 2 {
		t.Errorf("%+v", q)
	}
	q.Remove(open)
	if q.Leader() != nil || q.Len != 1 || q.Tries != 0 || q.Joined != 2 {
		t.Errorf("%+v", q)
	}
}
