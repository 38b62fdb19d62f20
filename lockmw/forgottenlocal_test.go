package lockmw_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestAForgottenHoldOfALocalEndsWhenOthersWantIt(t *testing.T) {
	for name, try := range map[string]bool{"a call waits": false, "calls try": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &amnesia{T: t, log: usertest.DefaultLog(t)}
				local := lockmw.NewLocal(lockmw.WithLease(lease), lockmw.WithStacks())
				apart(func() { take(a, t.Context(), local, "item:7", lockmw.WithLabel("req-7")) })
				got := make(chan error, 1)
				var seen, at time.Time
				if !try {
					go func() {
						_, hold, err := local.Lock(t.Context(), "item:7")
						at = time.Now()
						got <- errors.Join(err, hold.Unlock())
					}()
				}
				a.until("another call has the lock", func() bool {
					if seen.IsZero() && len(a.lines()) == 1 {
						seen = time.Now()
					}
					if try {
						if _, hold, err := local.TryLock(t.Context(), "item:7"); err == nil {
							at = time.Now()
							got <- hold.Unlock()
						}
					}
					return len(got) == 1
				})
				if err := <-got; err != nil {
					t.Error(err)
				}
				if after := at.Sub(seen); seen.IsZero() || after < lease/2 || after > 2*lease {
					t.Errorf("seen at %v, free %v after that", seen, after)
				}
				if lines := a.lines(); len(lines) != 1 || !strings.Contains(lines[0], "label=req-7") || !strings.Contains(lines[0], "TestAForgottenHoldOfALocal") {
					t.Errorf("logged %q", lines)
				}
			})
		})
	}
}

func TestAForgottenHoldOfALocalKeepsToItsTerms(t *testing.T) {
	for name, test := range map[string]struct {
		term        lockmw.Option
		least, most time.Duration
		lines       int
	}{
		"minimum":      {lockmw.WithMinHold(4 * lease), 4 * lease, 7 * lease, 1},
		"maximum":      {lockmw.WithMaxHold(2 * lease), 2 * lease, 2*lease + lease/3, 1},
		"long maximum": {lockmw.WithMaxHold(100 * lease), lease, 7 * lease, 1},
		"fixed lease":  {lockmw.WithFixedLease(4 * lease), 4 * lease, 4*lease + lease/3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &amnesia{T: t, log: usertest.DefaultLog(t)}
				local := lockmw.NewLocal(lockmw.WithLease(lease))
				begun := time.Now()
				apart(func() { take(a, t.Context(), local, "item:7", test.term) })
				a.pass(4)
				a.until("the key becomes free", func() bool {
					_, hold, err := local.TryLock(t.Context(), "item:7", lockmw.WithLease(lease))
					return err == nil && hold.Unlock() == nil
				})
				if took := time.Since(begun); took < test.least || took > test.most {
					t.Errorf("it is free after %v, want %v to %v", took, test.least, test.most)
				}
				if got := a.lines(); len(got) != test.lines {
					t.Errorf("logged %q", got)
				}
			})
		})
	}
}

func TestAHoldOfALocalThatCanBeReachedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &amnesia{T: t, log: &usertest.Output{}}
		local := lockmw.NewLocal(lockmw.WithLease(lease))
		ctx, _ := take(a, t.Context(), local, "item:7")
		wait := make(chan error)
		go func() {
			_, _, err := local.Lock(t.Context(), "item:7", lockmw.WithWait(20*lease))
			wait <- err
		}()
		a.pass(70)
		if err := <-wait; !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("got %v", err)
		}
		if h, err := lockmw.Held(ctx, "item:7"); err != nil || h.Unlock() != nil {
			t.Errorf("the hold has ended: %v", err)
		}
	})
}
