package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
)

// Everything done under the lock gets the context that Lock returned: it ends when the lock is lost.
func Example() {
	locks := lockmw.NewLocal() // across processes: lockmw.New(rdb)

	ctx, hold, err := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()

	fmt.Println(hold.Key(), "is ours:", ctx.Err() == nil)
	// Output: user:42 is ours: true
}

// A call with the context of the hold re-enters: it needs no round trip and cannot wait for itself.
// The lock is free when the last hold ends, in whatever order they do.
func Example_reentry() {
	locks := lockmw.NewLocal()
	ctx, outer, _ := locks.Lock(context.Background(), "user:42")
	_, inner, err := locks.TryLock(ctx, "user:42")
	fmt.Println("nested:", err, inner.Token() == outer.Token())

	_ = outer.Unlock()
	_, _, err = locks.TryLock(context.Background(), "user:42")
	fmt.Println("still taken:", errors.Is(err, lockmw.ErrBusy))

	_ = inner.Unlock()
	_, _, err = locks.TryLock(context.Background(), "user:42")
	fmt.Println("free:", err == nil)
	// Output:
	// nested: <nil> true
	// still taken: true
	// free: true
}

// A key says what it is of, so that user 42 and item 42 never share a lock. Parts are escaped, so
// that different parts never make one key. A missing part makes no key at all.
func ExampleKey() {
	fmt.Println(lockmw.Key("user", "42"))
	fmt.Println(lockmw.Key("seat", "a:b", "c"), lockmw.Key("seat", "a", "b:c"))

	_, _, err := lockmw.NewLocal().Lock(context.Background(), lockmw.Key("user", ""))
	fmt.Println(errors.Is(err, lockmw.ErrInvalidKey))
	// Output:
	// user:42
	// seat:a%3Ab:c seat:a:b%3Ac
	// true
}

// TryLock does not wait. The error says who was in the way.
func ExampleLocal_TryLock() {
	locks := lockmw.NewLocal()
	_, first, _ := locks.TryLock(context.Background(), "user:42")
	defer first.Unlock()

	_, _, err := locks.TryLock(context.Background(), "user:42") // not first's context: somebody else
	fmt.Println(err)
	if e, ok := errors.AsType[*lockmw.Error](err); ok && errors.Is(err, lockmw.ErrBusy) {
		fmt.Println("held by the hold with our token:", e.Holders[0].Token == first.Token())
	}
	// Output:
	// lockmw: try_lock "user:42": lock is busy
	// held by the hold with our token: true
}

// A wait that its context ended matches both: the lock was busy, and the deadline has passed.
func ExampleError() {
	locks := lockmw.NewLocal()
	_, first, _ := locks.Lock(context.Background(), "user:42")
	defer first.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _, err := locks.Lock(ctx, "user:42")

	fmt.Println("busy:", errors.Is(err, lockmw.ErrBusy))
	fmt.Println("deadline:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println("Redis is down:", errors.Is(err, lockmw.ErrUnavailable))
	// Output:
	// busy: true
	// deadline: true
	// Redis is down: false
}

// Two calls that each have what the other one wants. One of them is ended, and says who waits for whom; the other one goes on
// as soon as that one has unlocked what it has.
func ExampleDeadlockOf() {
	locks := lockmw.NewLocal(lockmw.WithDeadlockDetection(50 * time.Millisecond))
	hasOrder, order, _ := locks.Lock(context.Background(), "order:1")
	time.Sleep(time.Millisecond) // the younger one is to end
	hasUser, user, _ := locks.Lock(context.Background(), "user:1")

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, also, err := locks.Lock(hasOrder, "user:1")
		fmt.Println("the other one goes on:", err == nil)
		_ = also.Unlock()
		_ = order.Unlock()
	}()
	_, _, err := locks.Lock(hasUser, "order:1")
	if deadlock, ok := lockmw.DeadlockOf(err); ok {
		for _, step := range deadlock.Circle {
			fmt.Println("one has", step.Has, "and wants", step.Wants)
		}
	}
	fmt.Println("busy:", errors.Is(err, lockmw.ErrBusy))
	_ = user.Unlock()
	<-done
	// Output:
	// one has user:1 and wants order:1
	// one has order:1 and wants user:1
	// busy: true
	// the other one goes on: true
}

// Do returns the function's error. If the function succeeded although the lock was lost under it,
// Do returns ErrLost: somebody else may have run at the same time.
func ExampleDo() {
	locks := lockmw.NewLocal()
	report := func(ctx context.Context) error {
		locks.Expire("report:nightly") // as a lease does that could not be renewed
		<-ctx.Done()
		fmt.Println("told to stop:", errors.Is(context.Cause(ctx), lockmw.ErrLost))
		return nil
	}
	err := lockmw.Do(context.Background(), locks, "report:nightly", report)
	fmt.Println("reported:", errors.Is(err, lockmw.ErrLost))
	// Output:
	// told to stop: true
	// reported: true
}

// One replica at a time does the work.
func ExampleLead() {
	ctx, stop := context.WithCancel(context.Background()) // until SIGTERM, say
	locks := lockmw.NewLocal()                            // lockmw.New(rdb) with Redis
	err := lockmw.Lead(ctx, locks, "lead:billing", func(ctx context.Context) error {
		hold, _ := lockmw.FromContext(ctx)
		fmt.Println("leads with token", hold.Token())
		stop()
		<-ctx.Done() // work until then
		return nil
	})
	fmt.Println(err)
	// Output:
	// leads with token 1
	// <nil>
}

// Each replica starts the job by its own clock, and one of them runs it.
func ExampleOnce() {
	ctx := context.Background()
	locks := lockmw.NewLocal()                                    // lockmw.New(rdb) with Redis
	tick := lockmw.Tick{At: time.Now(), Within: 10 * time.Second} // lockmw.Every(time.Hour), say
	for range 3 {                                                 // replicas
		ran, err := lockmw.Once(ctx, locks, "report:hourly", tick, func(context.Context) error {
			fmt.Println("making the report")
			return nil
		})
		fmt.Println("ran here:", ran, err)
	}
	// Output:
	// making the report
	// ran here: true <nil>
	// ran here: false <nil>
	// ran here: false <nil>
}

// WithLock guards a function with the lock that each input needs. It tries once; WithWait waits.
func ExampleWithLock() {
	type order struct{ User, Item string }
	locks := lockmw.NewLocal()

	var place func(context.Context, order) error
	byUser := lockmw.By("user", func(o order) string { return o.User })
	place = lockmw.WithLock(locks, byUser, func(_ context.Context, o order) error {
		if o.Item == "7" { // the user clicks again, in another request
			err := place(context.Background(), order{o.User, "8"})
			fmt.Println("second order of", o.User, "refused:", errors.Is(err, lockmw.ErrBusy))
		}
		return nil
	})

	fmt.Println(place(context.Background(), order{"42", "7"}))
	fmt.Println(place(context.Background(), order{"43", "7"}))
	// Output:
	// second order of 42 refused: true
	// <nil>
	// second order of 43 refused: true
	// <nil>
}

// WithLockValue is for functions with a result. A key function may look at the input and say that
// this call needs no lock.
func ExampleWithLockValue() {
	byItem := func(_ context.Context, item string) (string, error) {
		if strings.HasPrefix(item, "digital-") { // never out of stock
			return "", lockmw.ErrNoLock
		}
		return lockmw.Key("item", item), nil
	}
	reserve := lockmw.WithLockValue(lockmw.NewLocal(), byItem,
		func(ctx context.Context, item string) (string, error) {
			_, locked := lockmw.FromContext(ctx)
			return fmt.Sprintf("%s, locked: %t", item, locked), nil
		},
		lockmw.WithWait(time.Second))

	for _, item := range []string{"7", "digital-9"} {
		fmt.Println(reserve(context.Background(), item))
	}
	// Output:
	// 7, locked: true <nil>
	// digital-9, locked: false <nil>
}

// A process can sleep past its lease between the check of its lock and its write. Only the store
// that takes the write can refuse it, by the fencing token: each hold has a greater one than all
// before it.
func ExampleHeld() {
	locks := lockmw.NewLocal()
	var fence int64
	write := func(token int64) string { // UPDATE … SET fence = $1 WHERE id = $2 AND fence <= $1
		if token < fence {
			return "refused"
		}
		fence = token
		return "written"
	}

	slow, _, _ := locks.Lock(context.Background(), "item:7")
	hold, _ := lockmw.Held(slow, "item:7") // deep below: the lock is ours, and its token
	token := hold.Token()

	locks.Expire("item:7") // slow sleeps past its lease, and the next one comes
	_, next, _ := locks.Lock(context.Background(), "item:7")
	defer next.Unlock()
	fmt.Println("next:", write(next.Token()))
	fmt.Println("slow:", write(token))

	_, err := lockmw.Held(slow, "item:7")
	fmt.Println("lost:", errors.Is(err, lockmw.ErrLost))
	// Output:
	// next: written
	// slow: refused
	// lost: true
}

// LockAll takes all keys or none. It sorts them, so that two transfers in opposite directions do not
// wait for each other.
func ExampleLockAll() {
	locks := lockmw.NewLocal()
	ctx, holds, err := lockmw.LockAll(context.Background(), locks,
		[]string{lockmw.Key("account", "b"), lockmw.Key("account", "a"), lockmw.Key("account", "b")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer holds.Unlock()

	for _, hold := range holds {
		fmt.Println(hold.Key())
	}
	_, err = lockmw.Held(ctx, "account:a")
	fmt.Println("in the context:", err == nil)
	// Output:
	// account:a
	// account:b
	// in the context: true
}

// An Observer sees every wait and every hold. Its Name has few values and is safe as a label; the
// key is not.
func ExampleObserver() {
	queued := make(chan struct{})
	locks := lockmw.NewLocal(lockmw.WithObserver(&lockmw.Observer{
		Contended: func(_ context.Context, a lockmw.Attempt, c lockmw.Contention) {
			fmt.Printf("%s: waits for %d holder, place %d\n", a.Name, len(c.Holders), c.Position)
			close(queued)
		},
		Acquired: func(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
			fmt.Printf("%s: acquired, contended: %t\n", a.Name, g.Contended)
			return ctx
		},
	}))

	_, first, _ := locks.Lock(context.Background(), "user:42")
	second := make(chan error)
	go func() {
		second <- lockmw.Do(context.Background(), locks, "user:42", func(context.Context) error { return nil })
	}()
	<-queued
	_ = first.Unlock()
	fmt.Println(<-second)
	// Output:
	// user: acquired, contended: false
	// user: waits for 1 holder, place 1
	// user: acquired, contended: true
	// <nil>
}

// One policy serves requests and tasks. What stands nearest to the call wins.
func ExampleJoinOptions() {
	perItem := lockmw.JoinOptions(lockmw.WithName("item"), lockmw.WithLease(10*time.Second), lockmw.WithWait(2*time.Second))

	policy, err := lockmw.NewPolicy(perItem, lockmw.WithWait(0))
	fmt.Println(policy.Name, policy.Lease, policy.Wait, err)

	_, err = lockmw.NewPolicy(perItem, lockmw.WithLease(time.Millisecond))
	fmt.Println(errors.Is(err, lockmw.ErrInvalidOption))
	// Output:
	// item 10s 0s <nil>
	// true
}

// A fake forces what is hard to arrange in a test: here, a Redis that is down.
func ExampleLockerFunc() {
	down := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrUnavailable}
	})
	err := lockmw.Do(context.Background(), down, "user:42", func(context.Context) error {
		fmt.Println("never runs")
		return nil
	})
	fmt.Println(errors.Is(err, lockmw.ErrUnavailable))
	// Output: true
}

// NewHold makes the hold of another backend, or of a fake that loses its lock on demand.
func ExampleNewHold() {
	var lose context.CancelCauseFunc
	fragile := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, lose = context.WithCancelCause(ctx)
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error {
			fmt.Println("released", key)
			return nil
		})
		return ctx, hold, nil
	})

	err := lockmw.Do(context.Background(), fragile, "user:42", func(ctx context.Context) error {
		lose(lockmw.ErrLost)
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// released user:42
	// lockmw: unlock "user:42": lock was lost
}
