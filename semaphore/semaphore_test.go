package semaphore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

func TestNewRefusesInvalidArguments(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never contacted
	t.Cleanup(func() { rdb.Close() })
	c, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for name, make := range map[string]func(){
		"no permits":           func() { semaphore.New(c, 0) },
		"less than none":       func() { semaphore.New(c, -1) },
		"too many":             func() { semaphore.New(c, semaphore.MaxPermits+1) },
		"too heavy":            func() { semaphore.New(c, 3, lockmw.WithWeight(4)) },
		"no weight":            func() { semaphore.New(c, 3, lockmw.WithWeight(0)) },
		"another bad option":   func() { semaphore.New(c, 3, lockmw.WithWait(-1)) },
		"no Client":            func() { semaphore.New(nil, 3) },
		"a zero Client":        func() { semaphore.New(new(lockmw.Client), 3) },
		"no Local":             func() { semaphore.NewLocal(nil, 3) },
		"too many of a Local":  func() { semaphore.NewLocal(lockmw.NewLocal(), semaphore.MaxPermits+1) },
		"too heavy of a Local": func() { semaphore.NewLocal(lockmw.NewLocal(), 1, lockmw.WithWeight(2)) },
	} {
		func() {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, lockmw.ErrInvalidOption) {
					t.Errorf("%s: panics with %v, want ErrInvalidOption", name, err)
				}
			}()
			make()
		}()
	}
	semaphore.New(c, semaphore.MaxPermits, lockmw.WithWeight(semaphore.MaxPermits))
	for name, call := range map[string]func() error{
		"more than there are": func() error {
			_, _, err := semaphore.New(c, 3).Lock(t.Context(), "k", lockmw.WithWeight(4))
			return err
		},
		"a weight of a lock": func() error {
			_, _, err := c.Lock(t.Context(), "k", lockmw.WithWeight(1))
			return err
		},
		"a job": func() error {
			_, err := lockmw.Once(t.Context(), semaphore.New(c, 3), "k", lockmw.Every(time.Minute), func(context.Context) error { return nil })
			return err
		},
	} {
		if err := call(); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
}

// A call that fails open has no permit, and no slot that another call might have.
func TestAFailOpenHoldHasNoSlot(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { rdb.Close() })
	c, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_, hold, err := semaphore.New(c, 3).Lock(t.Context(), "k", lockmw.WithFailOpen())
	if err != nil || hold.Token() != 0 || hold.Slot() != -1 || hold.Slots() != nil {
		t.Fatalf("%v: token %d, slot %d, slots %v", err, hold.Token(), hold.Slot(), hold.Slots())
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestALocalSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := lockmw.NewLocal()
		l := semaphore.NewLocal(local, 4)
		take := func(w int, opts ...lockmw.Option) *lockmw.Hold {
			t.Helper()
			_, hold, err := l.Lock(t.Context(), "k", append(opts, lockmw.WithWeight(w))...)
			if err != nil {
				t.Fatal(err)
			}
			return hold
		}
		a, b := take(1), take(2)
		if !slices.Equal(a.Slots(), []int{0}) || !slices.Equal(b.Slots(), []int{1, 2}) || b.Token() <= a.Token() {
			t.Errorf("the slots are %v and %v, the tokens %d and %d", a.Slots(), b.Slots(), a.Token(), b.Token())
		}
		var order []int
		got := make(chan *lockmw.Hold)
		for _, w := range []int{3, 1} {
			go func() {
				_, hold, err := l.Lock(t.Context(), "k", lockmw.WithWeight(w))
				if err != nil {
					t.Error(err)
				}
				order = append(order, w)
				got <- hold
			}()
			synctest.Wait() // until it is queued
		}
		if _, _, err := l.TryLock(t.Context(), "k"); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("a try that would fit, with others waiting: %v", err)
		}
		if _, _, err := local.Lock(t.Context(), "k"); !errors.Is(err, lockmw.ErrWrongType) {
			t.Errorf("a lock of the key: %v, want ErrWrongType", err)
		}
		synctest.Wait()
		if len(order) > 0 {
			t.Fatalf("%v have been granted permits while 3 of 4 are held", order)
		}
		if err := b.Unlock(); err != nil {
			t.Fatal(err)
		}
		heavy := <-got
		if err := heavy.Unlock(); err != nil {
			t.Error(err)
		}
		light := <-got
		if !slices.Equal(order, []int{3, 1}) {
			t.Errorf("granted in the order %v", order)
		}
		local.Expire("k")
		if err := errors.Join(a.Unlock(), light.Unlock()); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Unlock after the end of all leases: %v", err)
		}
		_, locked, err := local.Lock(t.Context(), "k")
		if err != nil {
			t.Fatalf("a lock of the free key: %v", err)
		}
		if _, _, err := l.TryLock(t.Context(), "k"); !errors.Is(err, lockmw.ErrWrongType) {
			t.Errorf("a permit of a key with a lock: %v, want ErrWrongType", err)
		}
		if err := locked.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestALockerThatNewDidNotMakeSaysSo(t *testing.T) {
	usertest.Explains(t, map[string]func() error{
		"Lock":    func() error { _, _, err := (*semaphore.Locker)(nil).Lock(t.Context(), "k"); return err },
		"TryLock": func() error { _, _, err := new(semaphore.Locker).TryLock(t.Context(), "k"); return err },
		"Logger":  func() error { new(semaphore.Locker).Logger(); return nil },
	})
}
