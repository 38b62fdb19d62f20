package suspend

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A machine sleeps, but the servers of its processes stay awake.
type machine struct {
	*testing.T
	clocks []*redistest.Clock
}

// inBubble runs test in a bubble. The clock belongs to the whole process, so no test here is parallel.
func inBubble(t *testing.T, test func(m *machine)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // until go-redis' goroutines have ended
		test(&machine{T: t})
	})
}

// sleep makes the machine sleep for d when no message is in flight: the clocks are not stepped together.
func (m *machine) sleep(d time.Duration) {
	synctest.Wait()
	clock.Skip(d)
	for _, c := range m.clocks {
		c.Step(d)
	}
}

func (m *machine) server() *redistest.Server {
	s := redistest.Piped(m)
	m.clocks = append(m.clocks, s.NewClock(m))
	return s
}

func (m *machine) client(s *redistest.Server, opts ...lockmw.ClientOption) *lockmw.Client {
	m.Helper()
	opts = append([]lockmw.ClientOption{lockmw.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	c, err := lockmw.New(s.NewClient(m, s.NewWire().Use), opts...)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = c.Close() })
	return c
}

// kinds are all kinds of locks on all backends. Each returns a Locker of the sleeping process, and one of another process.
var kinds = map[string]func(m *machine) (sleeper, other lockmw.Locker){
	"plain": over(func(c *lockmw.Client) lockmw.Locker { return c }),
	"fair":  over(func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) }),
	"write": over(func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) }),
	"read": func(m *machine) (sleeper, other lockmw.Locker) {
		s := m.server()
		return rwlock.New(m.client(s)).RLocker(), rwlock.New(m.client(s))
	},
	"semaphore": over(func(c *lockmw.Client) lockmw.Locker { return semaphore.New(c, 1) }),
	"several nodes": func(m *machine) (sleeper, other lockmw.Locker) {
		servers := []*redistest.Server{m.server(), m.server(), m.server()}
		process := func() lockmw.Locker {
			var nodes []*lockmw.Client
			for _, s := range servers {
				nodes = append(nodes, m.client(s))
			}
			l := redlock.New(nodes)
			m.Cleanup(func() { _ = l.Close() })
			return l
		}
		return process(), process()
	},
}

func over(kind func(*lockmw.Client) lockmw.Locker) func(m *machine) (sleeper, other lockmw.Locker) {
	return func(m *machine) (sleeper, other lockmw.Locker) {
		s := m.server()
		return kind(m.client(s)), kind(m.client(s))
	}
}

// local adds the locks within a process, whose holds end by the clock only if they are limited.
func local(limited map[string]lockmw.Option, test func(t *testing.T, kind func(m *machine) (sleeper, other lockmw.Locker), o lockmw.Option)) func(t *testing.T) {
	return func(t *testing.T) {
		for name, o := range limited {
			t.Run("local, "+name, func(t *testing.T) {
				test(t, func(*machine) (sleeper, other lockmw.Locker) {
					l := lockmw.NewLocal()
					return l, l
				}, o)
			})
			t.Run("local semaphore, "+name, func(t *testing.T) {
				test(t, func(*machine) (sleeper, other lockmw.Locker) {
					l := semaphore.NewLocal(lockmw.NewLocal(), 1)
					return l, l
				}, o)
			})
		}
	}
}

const lease = 30 * time.Second

var limits = map[string]lockmw.Option{
	"a maximum hold": lockmw.WithMaxHold(lease),
	"a fixed lease":  lockmw.WithFixedLease(lease),
}

func TestAHoldHasEndedWhenItsMachineResumes(t *testing.T) {
	endsByResume := func(t *testing.T, kind func(m *machine) (sleeper, other lockmw.Locker), o lockmw.Option) {
		inBubble(t, func(m *machine) {
			sleeper, other := kind(m)
			ctx, hold, err := sleeper.Lock(m.Context(), "item", o)
			if err != nil {
				m.Fatal(err)
			}
			done := ctx.Done()
			time.Sleep(lease / 2) // some renewals
			m.sleep(lease + time.Second)
			if now := time.Now(); now.Before(hold.Deadline()) {
				m.Errorf("time.Now is %v before the deadline", hold.Deadline().Sub(now))
			}
			if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), lockmw.ErrLost) {
				m.Errorf("the context ends with %v, %v, want ErrLost", err, context.Cause(ctx))
			}
			if _, err := lockmw.Held(ctx, "item"); !errors.Is(err, lockmw.ErrLost) {
				m.Errorf("Held: %v, want ErrLost", err)
			}
			if err := hold.Extend(m.Context(), time.Hour); !errors.Is(err, lockmw.ErrLost) {
				m.Errorf("Extend: %v, want ErrLost", err)
			}
			select {
			case <-done:
			default:
				m.Error("Err has not ended Done")
			}
			if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
				m.Errorf("Unlock: %v, want ErrLost", err)
			}
			_, next, err := other.Lock(m.Context(), "item", lockmw.WithWait(time.Second))
			if err != nil {
				m.Fatal(err)
			}
			if err := next.Unlock(); err != nil {
				m.Errorf("Unlock of the next hold: %v", err)
			}
		})
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) { endsByResume(t, kind, lockmw.WithLease(lease)) })
		for limit, o := range limits {
			t.Run(name+", "+limit, func(t *testing.T) { endsByResume(t, kind, o) })
		}
	}
	local(limits, endsByResume)(t)
}

// Code that only waits for Done also learns of the end.
func TestDoneIsClosedSoonAfterAResume(t *testing.T) {
	isDoneSoon := func(t *testing.T, kind func(m *machine) (sleeper, other lockmw.Locker), o lockmw.Option) {
		inBubble(t, func(m *machine) {
			sleeper, _ := kind(m)
			ctx, hold, err := sleeper.Lock(m.Context(), "item", o)
			if err != nil {
				m.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			m.sleep(lease + time.Second)
			resumed := time.Now()
			<-ctx.Done()
			if late := time.Since(resumed); late > clock.Interval {
				m.Errorf("Done is closed %v after the resume", late)
			}
			if !errors.Is(context.Cause(ctx), lockmw.ErrLost) {
				m.Errorf("the context ends with %v, want ErrLost", context.Cause(ctx))
			}
			_ = hold.Unlock()
		})
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) { isDoneSoon(t, kind, lockmw.WithLease(lease)) })
		for limit, o := range limits {
			t.Run(name+", "+limit, func(t *testing.T) { isDoneSoon(t, kind, o) })
		}
	}
	local(limits, isDoneSoon)(t)
}

// A sleep shorter than the rest of the lease does not end the hold.
func TestAHoldOutlivesAShortSleep(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(m *machine) {
				sleeper, other := kind(m)
				ctx, hold, err := sleeper.Lock(m.Context(), "item", lockmw.WithLease(lease))
				if err != nil {
					m.Fatal(err)
				}
				for range 5 {
					m.sleep(lease / 2)
					time.Sleep(time.Second)
					if ctx.Err() != nil {
						m.Fatalf("the hold has ended: %v", context.Cause(ctx))
					}
					if _, _, err := other.Lock(m.Context(), "item", lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
						m.Fatalf("another process: %v, want ErrBusy", err)
					}
				}
				if err := hold.Unlock(); err != nil {
					m.Errorf("Unlock: %v", err)
				}
			})
		})
	}
}

func TestANestedHoldHasEndedWhenItsMachineResumes(t *testing.T) {
	inBubble(t, func(m *machine) {
		c := m.client(m.server())
		ctx, hold, err := c.Lock(m.Context(), "item", lockmw.WithLease(time.Hour))
		if err != nil {
			m.Fatal(err)
		}
		inner, nested, err := c.Lock(ctx, "item", lockmw.WithMaxHold(time.Minute))
		if err != nil {
			m.Fatal(err)
		}
		waiting, also, err := c.Lock(ctx, "item", lockmw.WithMaxHold(time.Minute))
		if err != nil {
			m.Fatal(err)
		}
		m.sleep(2 * time.Minute)
		if inner.Err() == nil || time.Now().Before(nested.Deadline()) {
			m.Errorf("the nested hold lasts until %v", nested.Deadline())
		}
		resumed := time.Now()
		<-waiting.Done()
		if late := time.Since(resumed); late > clock.Interval {
			m.Errorf("Done is closed %v after the resume", late)
		}
		if ctx.Err() != nil {
			m.Errorf("the outer hold has ended: %v", context.Cause(ctx))
		}
		for _, h := range []*lockmw.Hold{nested, also} {
			if err := h.Unlock(); !errors.Is(err, lockmw.ErrLost) {
				m.Errorf("Unlock of a nested hold: %v, want ErrLost", err)
			}
		}
		if err := hold.Unlock(); err != nil {
			m.Errorf("Unlock: %v", err)
		}
	})
}

func TestAResponseIsWithheldAfterASleep(t *testing.T) {
	inBubble(t, func(m *machine) {
		c := m.client(m.server())
		handler := httpmw.WithLock(c, httpmw.Const("job"))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			m.sleep(10 * time.Minute)
			w.WriteHeader(http.StatusCreated)
		}))
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil))
		if rec.Code < 500 {
			m.Errorf("status %d for work that was not exclusive", rec.Code)
		}
	})
}

// Neither a sleep nor a step of the wall clock, which looks the same, ends a minimum hold early.
func TestAMinimumHoldIsNotShortenedByASkip(t *testing.T) {
	const least = 10 * time.Second
	for name, kind := range map[string]func(m *machine) (sleeper, other lockmw.Locker){
		"plain": kinds["plain"], "several nodes": kinds["several nodes"],
		"local": func(*machine) (sleeper, other lockmw.Locker) {
			l := lockmw.NewLocal()
			return l, l
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(m *machine) {
				l, other := kind(m)
				_, hold, err := l.Lock(m.Context(), "item", lockmw.WithMinHold(least), lockmw.WithLease(time.Hour))
				if err != nil {
					m.Fatal(err)
				}
				clock.Skip(30 * time.Second) // the server's clock was not stepped
				if err := hold.Unlock(); err != nil {
					m.Fatal(err)
				}
				time.Sleep(least - time.Second)
				if _, _, err := other.Lock(m.Context(), "item", lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
					m.Errorf("before the end of the minimum hold: %v, want ErrBusy", err)
				}
				time.Sleep(2 * time.Second)
				_, next, err := other.Lock(m.Context(), "item", lockmw.WithWait(time.Second))
				if err != nil {
					m.Fatalf("after the minimum hold: %v", err)
				}
				_ = next.Unlock()
			})
		})
	}
}

// After a sleep through a quarantine, a process can lock immediately.
func TestAQuarantineThatEndsDuringASleepIsOver(t *testing.T) {
	inBubble(t, func(m *machine) {
		const quarantine = time.Minute
		s := m.server()
		s.NewMemory(m)
		c := m.client(s, lockmw.WithQuarantine(quarantine))
		opts := []lockmw.Option{lockmw.WithLease(10 * time.Second), lockmw.WithWait(0)}
		if _, _, err := c.Lock(m.Context(), "item", opts...); !errors.Is(err, lockmw.ErrUnavailable) {
			m.Fatalf("a new server: %v, want ErrUnavailable", err)
		}
		m.sleep(quarantine)
		_, hold, err := c.Lock(m.Context(), "item", opts...)
		if err != nil {
			m.Fatal(err)
		}
		_ = hold.Unlock()
	})
}

// A step of the wall clock does not shorten a quarantine: the server's clock decides when it ends.
func TestAQuarantineIsNotShortenedByASkip(t *testing.T) {
	inBubble(t, func(m *machine) {
		const quarantine = time.Minute
		s := m.server()
		s.NewMemory(m)
		c := m.client(s, lockmw.WithQuarantine(quarantine))
		opts := []lockmw.Option{lockmw.WithLease(10 * time.Second), lockmw.WithWait(0)}
		for range 2 {
			if _, _, err := c.Lock(m.Context(), "item", opts...); !errors.Is(err, lockmw.ErrUnavailable) {
				m.Fatalf("in the quarantine: %v, want ErrUnavailable", err)
			}
			clock.Skip(2 * quarantine)
		}
	})
}
