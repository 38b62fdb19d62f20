package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
)

// Use the context that Lock returned for all work under the lock: it ends when the lock is lost.
func Example() {
	locks := lockmw.NewLocal() // across processes: lockmw.New(rdb)

	ctx, hold, err := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()

	fmt.Println("holds", hold.Key(), ctx.Err() == nil)
	// Output: holds user:42 true
}

// A call with the context of the hold re-enters the lock: it needs no round trip and cannot wait for itself. The lock is free
// when the last hold ends, in whatever order they end.
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

// A key begins with a kind, so that user 42 and item 42 never share a lock. Parts are escaped, so that different parts never make
// the same key. A missing part makes an invalid key.
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

// TryLock does not wait. The error contains the holder in the way.
func ExampleLocal_TryLock() {
	locks := lockmw.NewLocal()
	_, first, _ := locks.TryLock(context.Background(), "user:42")
	defer first.Unlock()

	_, _, err := locks.TryLock(context.Background(), "user:42") // not first's context: another caller
	fmt.Println(err)
	if e, ok := errors.AsType[*lockmw.Error](err); ok && errors.Is(err, lockmw.ErrBusy) {
		fmt.Println("held by first:", e.Holders[0].Token == first.Token())
	}
	// Output:
	// lockmw: try_lock "user:42": lock is busy
	// held by first: true
}

// The error of a wait that was ended by its context matches both ErrBusy and the context's error.
func ExampleError() {
	locks := lockmw.NewLocal()
	_, first, _ := locks.Lock(context.Background(), "user:42")
	defer first.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
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

// Two calls each hold the lock that the other one waits for. One of them ends with an error that contains the cycle. The other
// one continues as soon as that caller has unlocked its lock.
func ExampleDeadlockOf() {
	locks := lockmw.NewLocal(lockmw.WithDeadlockDetection(50 * time.Millisecond))
	hasOrder, order, _ := locks.Lock(context.Background(), "order:1")
	time.Sleep(time.Millisecond) // the younger call will end
	hasUser, user, _ := locks.Lock(context.Background(), "user:1")

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, also, err := locks.Lock(hasOrder, "user:1")
		fmt.Println("the other one continues:", err == nil)
		_ = also.Unlock()
		_ = order.Unlock()
	}()
	_, _, err := locks.Lock(hasUser, "order:1")
	if deadlock, ok := lockmw.DeadlockOf(err); ok {
		for _, step := range deadlock.Circle {
			fmt.Println("one holds", step.Has, "and waits for", step.Wants)
		}
	}
	fmt.Println("busy:", errors.Is(err, lockmw.ErrBusy))
	_ = user.Unlock()
	<-done
	// Output:
	// one holds user:1 and waits for order:1
	// one holds order:1 and waits for user:1
	// busy: true
	// the other one continues: true
}

// Do returns the function's error. If the lock was lost meanwhile, Do returns ErrLost even if the function succeeded: another
// holder may have run at the same time.
func ExampleDo() {
	locks := lockmw.NewLocal()
	report := func(ctx context.Context) error {
		locks.Expire("report:nightly") // as if the lease could not be renewed
		<-ctx.Done()
		fmt.Println("must stop:", errors.Is(context.Cause(ctx), lockmw.ErrLost))
		return nil
	}
	err := lockmw.Do(context.Background(), locks, "report:nightly", report)
	fmt.Println("reported:", errors.Is(err, lockmw.ErrLost))
	// Output:
	// must stop: true
	// reported: true
}

// WithLock makes a function that takes the lock of its input. It does not wait for the lock unless WithWait is set.
func ExampleWithLock() {
	type order struct{ User, Item string }
	locks := lockmw.NewLocal()

	var place func(context.Context, order) error
	byUser := lockmw.By("user", func(o order) string { return o.User })
	place = lockmw.WithLock(locks, byUser, func(_ context.Context, o order) error {
		if o.Item == "7" { // meanwhile the user clicks again, which is another request
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

// WithLockValue is for functions with a result. A key function may decide by the input that a call needs no lock.
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

// A process can sleep until after its lease between the check of its lock and its write. Only the database can refuse that write,
// by the fencing token: each hold has a greater token than all earlier ones.
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
	hold, _ := lockmw.Held(slow, "item:7") // deep in the call stack: the hold of a caller
	token := hold.Token()

	locks.Expire("item:7") // slow sleeps until its lease has expired, and the next caller gets the lock
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

// LockAll takes the locks of all keys or of none. It sorts the keys, so that two transfers in opposite directions cannot
// deadlock.
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

// An Observer receives every wait and every hold. Attempt.Name has few values and is safe as a label of metrics; the key is not.
func ExampleObserver() {
	queued := make(chan struct{})
	locks := lockmw.NewLocal(lockmw.WithObserver(&lockmw.Observer{
		Contended: func(_ context.Context, a lockmw.Attempt, c lockmw.Contention) {
			fmt.Printf("%s: waits for %d holder, position %d\n", a.Name, len(c.Holders), c.Position)
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
	// user: waits for 1 holder, position 1
	// user: acquired, contended: true
	// <nil>
}

// Requests and tasks share a policy. The option nearest to the call wins.
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

// A fake makes a test see what is hard to arrange: here, a Redis that is down.
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
