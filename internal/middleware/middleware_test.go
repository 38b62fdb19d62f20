package middleware_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/lockmw"
)

type config struct{ n int }

// setN is an option of a package.
func setN(n int) middleware.Setting[config] {
	return func(c *config) error {
		c.n = n
		if n < 0 {
			return fmt.Errorf("%w: n is negative", lockmw.ErrInvalidOption)
		}
		return nil
	}
}

func TestSplitAppliesSettingsAndReturnsTheOptionsOfTheLock(t *testing.T) {
	var c config
	lock := middleware.Split(&c, "pkg: Func", []any{setN(3), lockmw.WithWait(time.Second), setN(4)})
	if c.n != 4 || len(lock) != 1 || cap(lock) != 1 {
		t.Errorf("n is %d, want 4; %d options for the lock with room for %d, want 1 and 1", c.n, len(lock), cap(lock))
	}
}

func TestSplitPanicsForInvalidOptions(t *testing.T) {
	for want, opts := range map[string][]any{
		"pkg: Func: option 2 is <nil>, not an Option made by lockmw or pkg": {setN(1), nil},
		"pkg: Func: option 1 is int, not an Option made by lockmw or pkg":   {7},
		"pkg: Func: lockmw: invalid option: n is negative":                  {setN(-1)},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			middleware.Split(&config{}, "pkg: Func", opts)
		}()
	}
}

func TestCheckLockRefusesAPlaceThatAllCallsShare(t *testing.T) {
	l := lockmw.NewLocal()
	if p, err := middleware.CheckLock(l, []lockmw.Option{lockmw.WithWait(time.Second)}, "no"); err != nil || p.Wait != time.Second {
		t.Errorf("a wait: %v, %v", p.Wait, err)
	}
	_, err := middleware.CheckLock(l, []lockmw.Option{lockmw.WithPlace("a", time.Second)}, "one place")
	if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.HasSuffix(err.Error(), "one place") {
		t.Errorf("a place: %v", err)
	}
	if _, err := middleware.CheckLock(l, []lockmw.Option{lockmw.WithWeight(2)}, "no"); !errors.Is(err, lockmw.ErrInvalidOption) {
		t.Errorf("a weight without a semaphore: %v", err)
	}
}

func TestBackOffDoublesItsUpperLimit(t *testing.T) {
	const s = time.Second
	for n, most := range map[int]time.Duration{0: 2 * s, 1: 4 * s, 2: 8 * s, 3: 15 * s, 1000: 15 * s} {
		longest := time.Duration(0)
		for range 1000 {
			d := middleware.BackOff(s, s, 15*s, n)
			if d < s || d > most {
				t.Fatalf("after %d times: %v, want from 1s to %v", n, d, most)
			}
			longest = max(longest, d)
		}
		if longest < most*3/4 {
			t.Errorf("after %d times: at most %v in 1000 tries, want about %v", n, longest, most)
		}
	}
}

func TestCheckKey(t *testing.T) {
	if err := middleware.CheckKey("job", "user:42", nil); err != nil {
		t.Error(err)
	}
	for _, given := range []error{nil, errors.New("boom")} {
		err := middleware.CheckKey("job", "", given)
		e, ok := errors.AsType[*lockmw.Error](err)
		if !ok || e.Op != "key" || !strings.Contains(err.Error(), "no key for this job") || given != nil && !errors.Is(err, given) {
			t.Errorf("%v: %v", given, err)
		}
	}
}
