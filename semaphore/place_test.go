package semaphore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

func TestWhichLocksKeepPlaces(t *testing.T) {
	c, local := usertest.Client(t, redistest.Mini(t)), lockmw.NewLocal()
	refuses := func(what string, l lockmw.Locker, want bool) {
		t.Helper()
		_, hold, err := l.Lock(t.Context(), what, lockmw.WithPlace("task", time.Minute))
		if errors.Is(err, lockmw.ErrInvalidOption) != want || err != nil && !want {
			t.Errorf("%s: %v; want that it refuses WithPlace: %t", what, err, want)
		}
		if hold != nil {
			usertest.Unlock(t, hold)
		}
	}
	refuses("a plain lock", c, true)
	refuses("a write lock", rwlock.New(c), true)
	refuses("a read lock", rwlock.New(c).RLocker(), true)
	refuses("a fair lock", fairlock.New(c), false)
	refuses("a semaphore", semaphore.New(c, 2), false)
	refuses("a Local", local, false)
	refuses("a Local for reading", local.RLocker(), false)
}

func TestACallKeepsItsPlaceInTheQueueOfASemaphore(t *testing.T) {
	for name, locker := range map[string]func(t *testing.T, s *redistest.Server) *semaphore.Locker{
		"Redis": func(t *testing.T, s *redistest.Server) *semaphore.Locker {
			return semaphore.New(usertest.Client(t, s), 1)
		},
		"Local": func(*testing.T, *redistest.Server) *semaphore.Locker { return semaphore.NewLocal(lockmw.NewLocal(), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				l, place := locker(t, s), lockmw.WithPlace("task", time.Minute)
				_, held := usertest.Lock(t, t.Context(), l, "api")
				if _, _, err := l.Lock(t.Context(), "api", place, lockmw.WithWait(time.Second)); !errors.Is(err, lockmw.ErrBusy) {
					t.Fatalf("a call next to a hold: %v", err)
				}
				order := startTwo(t, l, place)
				usertest.Unlock(t, held)
				synctest.Wait()
				if first, second := <-order, <-order; first != "kept" || second != "later" {
					t.Errorf("%s comes before %s", first, second)
				}
			})
		})
	}
}

// startTwo starts a call without a place, and then one that continues from its kept place. The channel receives the names of the
// calls in the order in which they get the permit.
func startTwo(t *testing.T, l *semaphore.Locker, place lockmw.Option) <-chan string {
	order := make(chan string, 2)
	for _, call := range []struct {
		name string
		opts []lockmw.Option
	}{{"later", nil}, {"kept", []lockmw.Option{place}}} {
		go func() {
			_, hold, err := l.Lock(t.Context(), "api", call.opts...)
			if err != nil {
				t.Error(err)
				order <- err.Error()
				return
			}
			order <- call.name
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
	}
	return order
}
