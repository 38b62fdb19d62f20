package docs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A service is two processes that lock the same keys, one of which waits for long, and an operator.
type service struct {
	mine, other *lockmw.Client
	waiter      *lockmw.Client
	inspector   *lockmw.Inspector
	key         string
}

// everyCall makes each kind of call once. So every script runs, and every part of a script with its own commands. Only the full
// suite makes the call that lasts for seconds. It returns the first error.
func (s *service) everyCall(ctx context.Context) error {
	var silent error
	var wg sync.WaitGroup
	if suite.Full() {
		wg.Go(func() { silent = s.silence(ctx) }) // runs as long as all the others
	}
	err := s.steps(ctx)
	wg.Wait()
	if err == nil && silent != nil {
		err = fmt.Errorf("wait in silence: %w", silent)
	}
	return err
}

func (s *service) steps(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"lock, extend, renew and unlock", s.alone},
		{"many keys together", s.manyKeys},
		{"try, wait and hand over", s.handOver},
		{"get into a deadlock", s.deadlock},
		{"keep a place", s.keepPlace},
		{"read and write", s.readAndWrite},
		{"wait to read in a crowd", s.crowd},
		{"run a job once", s.once},
		{"take permits and wait for them", s.permits},
		{"inspect and release by force", s.operate},
	} {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (s *service) alone(ctx context.Context) error {
	renewed := make(chan error, 100)
	_, hold, err := s.mine.Lock(ctx, s.key, lockmw.WithLease(3*time.Second), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewed <- err },
	}))
	if err != nil {
		return err
	}
	select {
	case err = <-renewed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	err = errors.Join(err, hold.Extend(ctx, 5*time.Second), hold.Unlock())

	_, short, lockErr := s.mine.Lock(ctx, s.key, lockmw.WithMinHold(10*time.Millisecond))
	if lockErr == nil {
		lockErr = short.Unlock()
	}
	_, holds, allErr := lockmw.LockAll(ctx, s.mine, []string{s.key, s.key + ":a"})
	return errors.Join(err, lockErr, allErr, holds.Unlock())
}

// manyKeys takes so many locks that they share commands.
func (s *service) manyKeys(ctx context.Context) error {
	return together(64, func(i int) error {
		return lockmw.Do(ctx, s.mine, s.key+":"+strconv.Itoa(i), func(context.Context) error { return nil })
	})
}

func (s *service) handOver(ctx context.Context) error {
	_, hold, err := s.mine.Lock(ctx, s.key)
	if err != nil {
		return err
	}
	if _, _, err := s.other.TryLock(ctx, s.key); !errors.Is(err, lockmw.ErrBusy) {
		return fmt.Errorf("TryLock: %w", err)
	}
	if err := s.leave(ctx, s.other); err != nil {
		return err
	}
	if err := s.next(ctx, hold, s.other); err != nil {
		return err
	}
	if _, hold, err = s.other.Lock(ctx, s.key); err != nil {
		return err
	}
	return s.next(ctx, hold, s.mine) // which listens from now on
}

// leave makes a call for a busy key that leaves as soon as it waits.
func (s *service) leave(ctx context.Context, l lockmw.Locker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, _, err := l.Lock(ctx, s.key, lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { cancel() },
	}))
	if !errors.Is(err, lockmw.ErrBusy) {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// next unlocks hold when a call for the key waits, which then gets the lock.
func (s *service) next(ctx context.Context, hold *lockmw.Hold, l lockmw.Locker, opts ...lockmw.Option) error {
	contended, done := make(chan struct{}), make(chan error, 1)
	opts = append(opts, lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(contended) },
	}))
	go func() {
		done <- lockmw.Do(ctx, l, s.key, func(context.Context) error { return nil }, opts...)
	}()
	select {
	case <-contended:
	case err := <-done:
		return errors.Join(fmt.Errorf("the call did not wait: %w", err), hold.Unlock())
	}
	return errors.Join(hold.Unlock(), <-done)
}

// deadlock makes each of two calls wait for the other's lock.
func (s *service) deadlock(ctx context.Context) error {
	keys, clients := [2]string{s.key + ":a", s.key + ":b"}, [2]*lockmw.Client{s.mine, s.other}
	var inner [2]context.Context
	var holds lockmw.Holds
	for i, c := range clients {
		ctx, hold, err := c.Lock(ctx, keys[i], lockmw.WithLabel("deadlock"))
		if err != nil {
			return errors.Join(err, holds.Unlock())
		}
		inner[i], holds = ctx, append(holds, hold)
	}
	ended := make(chan bool, 2)
	err := together(2, func(i int) error {
		_, hold, err := clients[i].Lock(inner[i], keys[1-i], lockmw.WithDeadlockDetection(100*time.Millisecond))
		isDeadlock := errors.Is(err, lockmw.ErrDeadlock)
		ended <- isDeadlock
		if isDeadlock {
			return holds[i].Unlock()
		} else if err != nil {
			return errors.Join(err, holds[i].Unlock())
		}
		return errors.Join(hold.Unlock(), holds[i].Unlock())
	})
	if one, two := <-ended, <-ended; one == two {
		return errors.Join(err, errors.New("neither call failed with a deadlock"))
	}
	return err
}

func (s *service) keepPlace(ctx context.Context) error {
	mine, other := fairlock.New(s.mine), fairlock.New(s.other, lockmw.WithPlace("t1", time.Minute))
	_, hold, err := mine.Lock(ctx, s.key)
	if err != nil {
		return err
	}
	if err := s.leave(ctx, other); err != nil {
		return err
	}
	return s.next(ctx, hold, other)
}

func (s *service) readAndWrite(ctx context.Context) error {
	mine, other := rwlock.New(s.mine), rwlock.New(s.other)
	_, hold, err := mine.RLock(ctx, s.key)
	if err != nil {
		return err
	}
	_, beside, err := other.RLock(ctx, s.key)
	if err != nil {
		return errors.Join(err, hold.Unlock())
	}
	if _, _, err := other.TryLock(ctx, s.key); !errors.Is(err, lockmw.ErrBusy) {
		return fmt.Errorf("TryLock: %w", err)
	}
	return errors.Join(beside.Unlock(), s.next(ctx, hold, other))
}

func (s *service) once(ctx context.Context) error {
	tick := lockmw.Tick{At: time.Now()}
	for _, first := range []bool{true, false} {
		ran, err := lockmw.Once(ctx, s.mine, s.key, tick, func(context.Context) error { return nil })
		if err != nil || ran != first {
			return fmt.Errorf("ran here: %t, %w", ran, err)
		}
	}
	return nil
}

func (s *service) permits(ctx context.Context) error {
	mine, other := semaphore.New(s.mine, 2), semaphore.New(s.other, 2, lockmw.WithWeight(2))
	_, hold, err := mine.Lock(ctx, s.key)
	if err != nil {
		return err
	}
	_, beside, err := mine.Lock(ctx, s.key, lockmw.WithMinHold(10*time.Millisecond))
	if err != nil {
		return errors.Join(err, hold.Unlock())
	}
	err = errors.Join(hold.Extend(ctx, time.Minute), beside.Unlock())
	if err := s.leave(ctx, other); err != nil {
		return err
	}
	if _, _, err := s.mine.TryLock(ctx, s.key); !errors.Is(err, lockmw.ErrWrongType) {
		return fmt.Errorf("a lock of the key: %w", err)
	}
	return errors.Join(err, s.next(ctx, hold, other))
}

// crowd makes more calls wait to read than one execution of a script admits.
func (s *service) crowd(ctx context.Context) error {
	const readers = 130
	mine, other := rwlock.New(s.mine), rwlock.New(s.other)
	_, hold, err := mine.Lock(ctx, s.key)
	if err != nil {
		return err
	}
	var waiting sync.WaitGroup
	waiting.Add(readers)
	done := make(chan error, 1)
	go func() {
		done <- together(readers, func(i int) error {
			arrived := sync.OnceFunc(waiting.Done)
			defer arrived()
			_, read, err := other.RLock(ctx, s.key,
				lockmw.WithLease(time.Minute+time.Duration(i)*time.Millisecond), // its own hold
				lockmw.WithObserver(&lockmw.Observer{
					Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { arrived() },
				}))
			if err != nil {
				return err
			}
			return read.Unlock()
		})
	}()
	waiting.Wait()
	err = mine.Downgrade(ctx, hold)
	return errors.Join(err, hold.Unlock(), <-done)
}

func (s *service) operate(ctx context.Context) error {
	for _, l := range []lockmw.Locker{s.mine, rwlock.New(s.mine).RLocker(), semaphore.New(s.mine, 2)} {
		held, hold, err := l.Lock(ctx, s.key)
		if err != nil {
			return err
		}
		for _, err := range s.inspector.All(ctx) {
			if err != nil {
				return err
			}
		}
		status, err := s.inspector.Get(ctx, s.key)
		if err != nil {
			return err
		}
		for _, h := range status.Holders {
			if err := s.inspector.ForceUnlock(ctx, s.key, h); err != nil {
				return err
			}
		}
		select {
		case <-held.Done(): // the hold was lost
		case <-time.After(5 * time.Second): // its next renewal comes later
			return errors.New("the holder is not notified")
		}
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			return fmt.Errorf("Unlock of a removed hold: %w", err)
		}
	}
	return nil
}

// silence lasts until an idle process tests the connection of its subscription.
func (s *service) silence(ctx context.Context) error {
	key := s.key + ":silent"
	_, hold, err := s.mine.Lock(ctx, key)
	if err != nil {
		return err
	}
	_, _, err = s.waiter.Lock(ctx, key, lockmw.WithWait(6*time.Second))
	if !errors.Is(err, lockmw.ErrBusy) {
		return fmt.Errorf("Lock for 6 s: %w", err)
	}
	return hold.Unlock()
}

// together runs n calls in parallel and joins their errors.
func together(n int, call func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// newService returns a service whose clients share c, and a function that closes it.
func newService(t *testing.T, c redis.UniversalClient, key string, logger *slog.Logger) (s *service, end func()) {
	t.Helper()
	mine, err1 := lockmw.New(c, lockmw.WithLogger(logger))
	other, err2 := lockmw.New(c, lockmw.WithLogger(logger))
	waiter, err3 := lockmw.New(c, lockmw.WithLogger(logger))
	inspector, err4 := lockmw.NewInspector(c)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return &service{mine, other, waiter, inspector, key}, func() {
		for _, c := range []*lockmw.Client{waiter, other, mine} {
			if err := c.Close(); err != nil && !errors.Is(err, lockmw.ErrUnavailable) { // it may have no right to release
				t.Error(err)
			}
		}
	}
}
