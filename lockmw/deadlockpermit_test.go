package lockmw_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// onPermits runs a test with a lock and a semaphore of n permits, within this process and by Clients as of several.
func onPermits(t *testing.T, n int, test func(t *testing.T, both func() (lock, permits lockmw.Locker))) {
	t.Run("local", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			local := lockmw.NewLocal()
			test(t, func() (lock, permits lockmw.Locker) { return local, semaphore.NewLocal(local, n) })
		})
	})
	t.Run("processes", func(t *testing.T) {
		usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
			test(t, func() (lock, permits lockmw.Locker) {
				c := process(t, s)
				return c, semaphore.New(c, n)
			})
		})
	})
}

// All permits are held by calls that wait for a lock whose holder needs a permit. If one of the calls continues, there is no
// deadlock.
func TestACircleThroughASemaphore(t *testing.T) {
	test := func(stuck bool) {
		onPermits(t, 2, func(t *testing.T, both func() (lock, permits lockmw.Locker)) {
			lock1, permits1 := both()
			lock2, permits2 := both()
			lock3, permits3 := both()
			one, two := nest(t, permits1).has("p"), nest(t, permits2).has("p")
			time.Sleep(10 * time.Millisecond)
			young := nest(t, lock3).has("l")
			one.wantsBy(lock1, "l")
			if stuck {
				two.wantsBy(lock2, "l")
			}
			young.wantsBy(permits3, "p")
			if !stuck {
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(young.err) > 0 {
					t.Fatalf("it did not wait: %v", <-young.err)
				}
				two.wantsBy(lock2, "free")
				ends(t, 0, 2*time.Second, one, two, young)
				return
			}
			for _, err := range ends(t, 1, 2*time.Second, one, two, young) {
				if d, _ := lockmw.DeadlockOf(err); len(d.Circle) != 2 || d.Circle[0].Wants != "p" || d.Circle[1].Has != "p" {
					t.Errorf("%v", err)
				}
			}
		})
	}
	test(true)
	test(false)
}

// A permit is free, but a heavier call stands before, and waits for a permit that is in the circle: or it goes away by itself.
func TestACircleThroughTheQueueOfASemaphore(t *testing.T) {
	test := func(wait time.Duration, deadlocks int) {
		onPermits(t, 2, func(t *testing.T, both func() (lock, permits lockmw.Locker)) {
			lock1, permits1 := both()
			_, permits2 := both()
			lock3, permits3 := both()
			one := nest(t, permits1).has("p")
			time.Sleep(10 * time.Millisecond)
			young := nest(t, lock3).has("l")
			heavy := nest(t, permits2).wants("p", lockmw.WithWeight(2), lockmw.WithWait(wait))
			one.wantsBy(lock1, "l")
			young.wantsBy(permits3, "p")
			if deadlocks == 0 {
				if err := <-heavy.err; !errors.Is(err, lockmw.ErrBusy) {
					t.Errorf("the heavy one: %v", err)
				}
				ends(t, 0, 5*time.Second, one, young)
				return
			}
			ends(t, deadlocks, 2*time.Second, one, young, heavy)
		})
	}
	test(time.Hour, 1)
	test(2900*time.Millisecond, 0)
}
