package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

const leadKey = "lead:billing"

// untilEnd is a run that lasts until its context ends.
func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestLeadEndsWithTheResultOfRun(t *testing.T) {
	for _, want := range []error{nil, io.EOF, lockmw.ErrUnavailable} { // another Redis of run's own, say
		runs := 0
		err := lockmw.Lead(t.Context(), lockmw.NewLocal(), leadKey, func(ctx context.Context) error {
			runs++
			if _, err := lockmw.Held(ctx, leadKey); err != nil {
				t.Error(err)
			}
			return want
		})
		if err != want || runs != 1 {
			t.Errorf("%v after %d runs, want %v after 1", err, runs, want)
		}
	}
}

func TestLeadersFollowOneAnotherAtOnce(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var mu sync.Mutex
		var starts []time.Duration
		var tokens []int64
		leading := 0
		begun := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			c := usertest.Client(t, s)
			wg.Go(func() {
				err := lockmw.Lead(t.Context(), c, leadKey, func(ctx context.Context) error {
					hold, _ := lockmw.FromContext(ctx)
					mu.Lock()
					leading++
					if leading > 1 {
						t.Error("two lead at the same time")
					}
					starts, tokens = append(starts, time.Since(begun)), append(tokens, hold.Token())
					mu.Unlock()
					time.Sleep(20 * time.Second) // longer than the lease
					mu.Lock()
					leading--
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i, start := range starts {
			if late := start - time.Duration(i)*20*time.Second; late < 0 || late > time.Second {
				t.Errorf("leader %d began %v after the one before had ended", i, late)
			}
		}
		if len(starts) != 3 || !slices.IsSorted(tokens) {
			t.Errorf("%d leaders with the tokens %v, want 3 with tokens that rise", len(starts), tokens)
		}
	})
}

func TestAnotherLeadsWithinTheLeaseAfterACrash(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		crashes, follows := usertest.ClientOf(t, s.NewClient(t, wire.Use)), usertest.Client(t, s)
		ctx, stop := context.WithCancel(t.Context())
		var ended, began time.Time
		led := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			runs := 0
			err := lockmw.Lead(ctx, crashes, leadKey, func(ctx context.Context) error {
				if runs++; runs > 1 {
					t.Error("leads again while another does")
				}
				close(led)
				<-ctx.Done()
				ended = time.Now()
				return io.EOF
			})
			if !errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
				t.Errorf("the former leader returns %v, want the end of its context", err)
			}
		})
		<-led
		wg.Go(func() {
			err := lockmw.Lead(t.Context(), follows, leadKey, func(context.Context) error {
				began = time.Now()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			wire.Restore()
			stop()
		})
		time.Sleep(time.Minute)
		wire.Cut()
		cut := time.Now()
		wg.Wait()
		if took := began.Sub(cut); took > 10*time.Second || ended.After(began) {
			t.Errorf("a leader is cut off: its context ends after %v, another leads after %v, want within 10s one after the other",
				ended.Sub(cut), took)
		}
	})
}

func TestShutdownEndsALeadersRun(t *testing.T) {
	for name, locker := range map[string]func(c *lockmw.Client) lockmw.Locker{
		"plain": func(c *lockmw.Client) lockmw.Locker { return c },
		"fair":  func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) },
	} {
		for _, returned := range []error{nil, io.EOF} {
			t.Run(name, func(t *testing.T) {
				usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
					c, other := usertest.Client(t, s), usertest.Client(t, s)
					l := locker(c)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					var wg sync.WaitGroup
					for range 2 { // one leads, one waits
						wg.Go(func() {
							runs := 0
							err := lockmw.Lead(ctx, l, leadKey, func(ctx context.Context) error {
								runs++
								<-ctx.Done()
								if _, err := lockmw.Held(ctx, leadKey); err != nil {
									t.Errorf("while run ends: %v", err)
								}
								if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrClosed) {
									t.Errorf("the cause is %v", cause)
								}
								time.Sleep(time.Minute) // longer than the lease
								return returned
							})
							if !errors.Is(err, lockmw.ErrClosed) || errors.Is(err, io.EOF) != (runs == 1 && returned != nil) {
								t.Errorf("Lead: %v after %d runs, want ErrClosed and %v", err, runs, returned)
							}
						})
					}
					synctest.Wait()
					time.Sleep(20 * time.Second) // over several renewals
					// Holds that do not lead are waited for.
					held, hold := usertest.Lock(t, t.Context(), l, "other")
					time.AfterFunc(30*time.Second, func() {
						if err := errors.Join(held.Err(), hold.Unlock()); err != nil {
							t.Error(err)
						}
					})
					begun := time.Now()
					if err := c.Shutdown(ctx); err != nil || time.Since(begun) != time.Minute {
						t.Errorf("Shutdown: %v after %v, want nil when run has returned", err, time.Since(begun))
					}
					wg.Wait()
					if _, _, err := other.TryLock(t.Context(), leadKey); err != nil {
						t.Errorf("after the end of a leader: %v", err)
					}
				})
			})
		}
	}
}

func TestALeaderThatLosesItsLockCompetesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockmw.NewLocal()
		var tokens []int64
		var lost, again time.Time
		err := lockmw.Lead(t.Context(), l, leadKey, func(ctx context.Context) error {
			hold, _ := lockmw.FromContext(ctx)
			tokens = append(tokens, hold.Token())
			if len(tokens) == 2 {
				again = time.Now()
				return nil
			}
			l.Expire(leadKey)
			<-ctx.Done()
			time.Sleep(time.Minute)
			lost = time.Now()
			return errors.New("the result of a leader that is none")
		})
		if pause := again.Sub(lost); err != nil || len(tokens) != 2 || tokens[0] >= tokens[1] || pause < 50*time.Millisecond || pause > 100*time.Millisecond {
			t.Errorf("Lead: %v with the tokens %v, %v after the run that lost its lock", err, tokens, pause)
		}
	})
}

func TestAPanicOfALeaderReleasesTheLock(t *testing.T) {
	l := lockmw.NewLocal()
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = lockmw.Lead(t.Context(), l, leadKey, func(context.Context) error { panic("boom") })
	}()
	if _, _, err := l.TryLock(t.Context(), leadKey); err != nil {
		t.Error(err)
	}
}

func TestLeadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockmw.NewLocal()
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for range 2 {
			go func() {
				results <- lockmw.Lead(ctx, l, leadKey, func(ctx context.Context) error {
					<-ctx.Done()
					return io.EOF
				})
			}()
		}
		synctest.Wait()
		cancel()
		var waited *lockmw.Error
		first, second := <-results, <-results
		if errors.As(first, &waited) {
			first, second = second, first
		}
		if first != io.EOF {
			t.Errorf("the leader returns %v", first)
		}
		if !errors.As(second, &waited) || waited.Op != "lead" || !errors.Is(second, context.Canceled) {
			t.Errorf("the other one returns %v, want an *Error with the end of its context", second)
		}
	})
}

func TestLeadTriesAgainWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		local := lockmw.NewLocal()
		l := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			tries = append(tries, time.Now())
			if n := len(tries); n <= 9 || n > 10 && n <= 12 {
				err := lockmw.ErrUnavailable
				if n == 3 {
					err = lockmw.ErrBusy // from a Locker that does not wait forever
				}
				return ctx, nil, &lockmw.Error{Op: "lead", Key: key, Err: err}
			}
			return local.Lock(ctx, key, opts...)
		})
		runs := 0
		err := lockmw.Lead(t.Context(), l, leadKey, func(ctx context.Context) error {
			if runs++; runs == 1 {
				local.Expire(leadKey)
				<-ctx.Done()
			}
			return nil
		})
		if err != nil || runs != 2 || len(tries) != 13 {
			t.Fatalf("Lead: %v after %d runs and %d tries", err, runs, len(tries))
		}
		want := []int{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 100, 200, 400} // ms; from the tenth on after a term
		for i, ms := range want {
			most := time.Duration(ms) * time.Millisecond
			if pause := tries[i+1].Sub(tries[i]); pause < most/2 || pause > most {
				t.Errorf("pause %d is %v, want from %v to %v", i, pause, most/2, most)
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tries = tries[:0]
		begun := time.Now()
		err = lockmw.Lead(ctx, l, leadKey, untilEnd)
		if !errors.Is(err, lockmw.ErrUnavailable) || time.Since(begun) != time.Second {
			t.Errorf("Lead: %v after %v, want ErrUnavailable at the end of its context", err, time.Since(begun))
		}
	})
}

func TestLeadEndsWithOtherErrorsOfTheLock(t *testing.T) {
	for _, fail := range []error{
		lockmw.ErrClosed,
		core.WithFault(fmt.Errorf("%w: NOPERM", lockmw.ErrUnavailable), core.Lasting),
	} {
		failing := &nodes{fail: fail}
		l := overLocks(t, failing, core.Kind{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lockmw.Lead(ctx, l, leadKey, untilEnd); !errors.Is(err, fail) || len(failing.requests) != 1 {
			t.Errorf("Lead: %v after %d requests, want %v after one", err, len(failing.requests), fail)
		}
	}
	if err := lockmw.Lead(t.Context(), lockmw.NewLocal(), "", untilEnd); !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Errorf("Lead without a key: %v", err)
	}
}

func TestLeadRefusesWhatALeaderCannotHave(t *testing.T) {
	local := lockmw.NewLocal()
	for name, lead := range map[string]func() error{
		"WithWait":    func() error { return lockmw.Lead(t.Context(), local, leadKey, untilEnd, lockmw.WithWait(time.Hour)) },
		"WithMinHold": func() error { return lockmw.Lead(t.Context(), local, leadKey, untilEnd, lockmw.WithMinHold(1)) },
		"WithFixedLease": func() error {
			return lockmw.Lead(t.Context(), local, leadKey, untilEnd, lockmw.WithFixedLease(time.Hour))
		},
		"WithFailOpen": func() error { return lockmw.Lead(t.Context(), local, leadKey, untilEnd, lockmw.WithFailOpen()) },
		"lease of":     func() error { return lockmw.Lead(t.Context(), local, leadKey, untilEnd, lockmw.WithLease(1)) },
		"argument":     func() error { return lockmw.Lead(t.Context(), (*lockmw.Client)(nil), leadKey, untilEnd) },
		"is nil":       func() error { return lockmw.Lead(t.Context(), local, leadKey, nil) },
	} {
		err := lead()
		if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), leadKey) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
}

// A Client made for requests may fail open, or try only once: as its defaults they do not count for a leader.
func TestDefaultsThatALeaderCannotHaveDoNotCount(t *testing.T) {
	n := &nodes{}
	l := overLocks(t, n, core.Kind{}, lockmw.WithFailOpen(), lockmw.WithWait(0), lockmw.WithMinHold(time.Minute), lockmw.WithFixedLease(time.Second))
	if err := lockmw.Lead(t.Context(), l, leadKey, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if r := n.requests[0]; r.Wait != lockmw.Forever || r.MinHold != 0 || r.Fixed || r.Lease != time.Second {
		t.Errorf("the request is %+v", r)
	}

	n.fail = core.ErrUnavailable
	ctx, cancel := context.WithCancel(t.Context())
	n.meanwhile = func(core.Events) {
		if len(n.requests) == 3 {
			cancel()
		}
	}
	led := func(context.Context) error {
		t.Error("leads without a lock")
		return nil
	}
	if err := lockmw.Lead(ctx, l, leadKey, led); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Lead: %v, want ErrUnavailable", err)
	}
}

func TestTheLeaseOfALeaderIs10Seconds(t *testing.T) {
	for want, opts := range map[time.Duration][]lockmw.Option{10 * time.Second: nil, time.Minute: {lockmw.WithLease(time.Minute)}} {
		n := &nodes{}
		l := overLocks(t, n, core.Kind{})
		if err := lockmw.Lead(t.Context(), l, leadKey, func(context.Context) error { return nil }, opts...); err != nil {
			t.Fatal(err)
		}
		if got := n.requests[0].Lease; got != want {
			t.Errorf("the lease is %v, want %v", got, want)
		}
	}
}
