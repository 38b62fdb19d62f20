package lockmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// Running work may refer to its hold in many ways.
func TestAHoldInUseIsNotForgotten(t *testing.T) {
	for name, use := range map[string]func(a *amnesia) (unlock func() error){
		"the hold": func(a *amnesia) func() error {
			_, hold := take(a, a.Context(), a.client, "item:7")
			return hold.Unlock
		},
		"its context": func(a *amnesia) func() error {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			return unlockOf(ctx)
		},
		"a context with a value": func(a *amnesia) func() error {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			return unlockOf(context.WithValue(ctx, valueKey{}, 1))
		},
		"a context with a timeout": func(a *amnesia) func() error {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, valueKey{}, 1), 10*time.Hour)
			unlock := unlockOf(ctx)
			return func() error { cancel(); return unlock() }
		},
		"a context that is not cancelled with it": func(a *amnesia) func() error {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			return unlockOf(context.WithoutCancel(ctx))
		},
		"a request with its context": func(a *amnesia) func() error {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			return func() error { return unlockOf(r.Context())() }
		},
		"a goroutine works with its context": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			go func() {
				for ctx.Err() == nil {
					select {
					case <-ctx.Done():
					case <-time.After(lease / 4):
					}
				}
			}()
			return fromAfar(hold)
		},
		"a function is to run after its context": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			context.AfterFunc(ctx, func() {})
			return fromAfar(hold)
		},
		"a function is to run after it, later": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			a.pass(4)
			context.AfterFunc(ctx, func() {})
			return fromAfar(hold)
		},
		"a function is to run after a nested context": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			ctx, nested := take(a, ctx, a.client, "item:7")
			context.AfterFunc(ctx, func() {})
			unlock, unlockNested := fromAfar(hold), fromAfar(nested)
			return func() error { return errors.Join(unlockNested(), unlock()) }
		},
		"a goroutine waits for a context below": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			goWait(below(ctx))
			return fromAfar(hold)
		},
		"a goroutine waits for a timeout below": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			ctx, cancel := context.WithTimeout(ctx, 10*time.Hour)
			a.Cleanup(cancel)
			goWait(ctx.Done())
			return fromAfar(hold)
		},
		"a nested hold": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			_, nested := take(a, ctx, a.client, "item:7")
			usertest.Unlock(a, hold)
			return nested.Unlock
		},
		"the context of a nested hold": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			ctx, _ = take(a, ctx, a.client, "item:7")
			unlock, unlockNested := fromAfar(hold), unlockOf(ctx)
			return func() error { return errors.Join(unlockNested(), unlock()) }
		},
		"the outer hold": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			_, nested := take(a, ctx, a.client, "item:7")
			usertest.Unlock(a, nested)
			return hold.Unlock
		},
		"two holds, unlocked late": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			_, nested := take(a, ctx, a.client, "item:7")
			return func() error {
				err := nested.Unlock()
				a.busy("item:7")
				return errors.Join(err, hold.Unlock())
			}
		},
		"three holds, one of them taken late": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			_, nested := take(a, ctx, a.client, "item:7")
			return func() error {
				_, late := take(a, ctx, a.client, "item:7", lockmw.WithWait(0))
				err := errors.Join(hold.Unlock(), late.Unlock())
				a.busy("item:7")
				return errors.Join(err, nested.Unlock())
			}
		},
		"a hold of another key within": func(a *amnesia) func() error {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			_, within := take(a, ctx, a.client, "item:8")
			unlock := fromAfar(hold)
			return func() error { return errors.Join(within.Unlock(), unlock()) }
		},
		"one of two readers": func(a *amnesia) func() error {
			l := rwlock.New(a.client).RLocker()
			_, first := take(a, a.Context(), l, "item:7")
			_, second := take(a, a.Context(), l, "item:7")
			usertest.Unlock(a, first)
			return second.Unlock
		},
		"one of two that write, downgraded late": func(a *amnesia) func() error {
			l := rwlock.New(a.client)
			ctx, hold := take(a, a.Context(), l, "item:7")
			_, nested := take(a, ctx, l, "item:7")
			return func() error {
				err := l.Downgrade(a.Context(), nested)
				if _, _, err := rwlock.New(a.other).TryRLock(a.Context(), "item:7"); !errors.Is(err, lockmw.ErrBusy) {
					a.Errorf("a reader next to a writer: %v", err)
				}
				return errors.Join(err, nested.Unlock(), hold.Unlock())
			}
		},
		"the context of LockAll": func(a *amnesia) func() error {
			ctx, _, err := lockmw.LockAll(a.Context(), a.client, []string{"item:6", "item:7", "item:8"})
			if err != nil {
				a.Error(err)
			}
			return func() (err error) {
				for _, key := range []string{"item:8", "item:7", "item:6"} {
					h, held := lockmw.Held(ctx, key)
					err = errors.Join(err, held, h.Unlock())
				}
				return err
			}
		},
		"the holds of LockAll": func(a *amnesia) func() error {
			_, holds, err := lockmw.LockAll(a.Context(), a.client, []string{"item:6", "item:7", "item:8"})
			if err != nil {
				a.Error(err)
			}
			return holds.Unlock
		},
		"a function of Do": func(a *amnesia) func() error {
			return running(func(wait func()) error {
				return lockmw.Do(a.Context(), a.client, "item:7", func(context.Context) error { wait(); return nil })
			})
		},
		"a handler of httpmw": func(a *amnesia) func() error {
			return running(func(wait func()) error {
				key := func(*http.Request) (string, error) { return "item:7", nil }
				w := httptest.NewRecorder()
				httpmw.WithLock(a.client, key)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { wait() })).
					ServeHTTP(w, httptest.NewRequestWithContext(a.Context(), http.MethodGet, "/", http.NoBody))
				if w.Code != http.StatusOK {
					return errors.New(w.Body.String())
				}
				return nil
			})
		},
		"a handler of asynqmw": func(a *amnesia) func() error {
			return running(func(wait func()) error {
				key := func(context.Context, *asynq.Task) (string, error) { return "item:7", nil }
				return asynqmw.WithLock(a.client, key)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { wait(); return nil })).
					ProcessTask(a.Context(), asynq.NewTask("refill", nil))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAmnesia(t, func(a *amnesia) {
				var unlock func() error
				apart(func() { unlock = use(a) })
				a.pass(8) // a forgotten hold ends earlier
				a.busy("item:7")
				if err := unlock(); err != nil {
					t.Error(err)
				}
				if got := a.lines(); len(got) > 0 {
					t.Errorf("logged %q", got)
				}
				a.free("item:7")
			})
		})
	}
}

// A hold that lasts is out of sight of what renews it.
func TestAHoldThatLastsLearnsOfItsLoss(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, ended chan<- struct{}){
		"": func(_ context.Context, ended chan<- struct{}) { close(ended) },
		"waited for": func(ctx context.Context, ended chan<- struct{}) {
			go func() { <-ctx.Done(); close(ended) }()
		},
		"a function is to run then": func(ctx context.Context, ended chan<- struct{}) {
			context.AfterFunc(ctx, func() { close(ended) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAmnesia(t, func(a *amnesia) {
				var renewals atomic.Int64
				ctx, hold := take(a, a.Context(), a.client, "item:7", lockmw.WithObserver(&lockmw.Observer{
					Renewed: func(context.Context, lockmw.Attempt, error) { renewals.Add(1) },
				}))
				ctx2, nested := take(a, ctx, a.client, "item:7")
				ended := make(chan struct{})
				use(ctx2, ended)
				a.pass(4)
				if err := a.server.NewClient(a).FlushAll(a.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				a.pass(2)
				select {
				case <-ended:
				default:
					t.Error("the context has not ended")
				}
				for _, h := range []*lockmw.Hold{nested, hold} {
					if err := h.Unlock(); !errors.Is(err, lockmw.ErrLost) {
						t.Errorf("Unlock: %v", err)
					}
				}
				for _, ctx := range []context.Context{ctx, ctx2} {
					if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
						t.Errorf("the context's cause is %v", cause)
					}
				}
				if n := renewals.Load(); n < 3 {
					t.Errorf("%d renewals were observed", n)
				}
			})
		})
	}
}

// unlockOf returns a function that refers to ctx and unlocks its hold.
func unlockOf(ctx context.Context) func() error {
	return func() error {
		hold, _ := lockmw.FromContext(ctx)
		return hold.Unlock()
	}
}

// fromAfar returns a function that unlocks a hold without referring to it.
func fromAfar(hold *lockmw.Hold) func() error {
	afar := weak.Make(hold)
	return func() error {
		if hold := afar.Value(); hold != nil {
			return hold.Unlock()
		}
		return errors.New("the hold is garbage")
	}
}

// below returns the channel of a context that derives from ctx. That context has no other reference and is never cancelled.
func below(ctx context.Context) <-chan struct{} {
	derive := context.WithCancel
	ctx, _ = derive(ctx)
	return ctx.Done()
}

func goWait(done <-chan struct{}) { go func() { <-done }() }

// running starts f, which calls wait, and returns a function that ends the wait and then returns what f does.
func running(f func(wait func()) error) (end func() error) {
	done, ended := make(chan error), make(chan struct{})
	go func() { done <- f(func() { <-ended }) }()
	synctest.Wait()
	return func() error { close(ended); return <-done }
}
