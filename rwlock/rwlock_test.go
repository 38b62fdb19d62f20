package rwlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// A call takes the lock in one of the ways that a Locker has.
type call func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error)

func TestMethodsTakeTheirSide(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		l := rwlock.New(usertest.Client(t, s))
		for name, method := range map[string]struct {
			call  call
			reads bool
		}{
			"Lock":           {l.Lock, false},
			"TryLock":        {l.TryLock, false},
			"RLock":          {l.RLock, true},
			"TryRLock":       {l.TryRLock, true},
			"RLocker's Lock": {l.RLocker().Lock, true},
		} {
			_, hold, err := method.call(t.Context(), "k")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, other, err := l.TryRLock(t.Context(), "k")
			switch {
			case err == nil:
				usertest.Unlock(t, other)
				if !method.reads {
					t.Errorf("%s does not keep readers out", name)
				}
			case method.reads || !errors.Is(err, lockmw.ErrBusy):
				t.Errorf("%s: TryRLock next to it: %v", name, err)
			}
			if _, _, err := l.TryLock(t.Context(), "k"); !errors.Is(err, lockmw.ErrBusy) {
				t.Errorf("%s: TryLock next to it: %v, want ErrBusy", name, err)
			}
			usertest.Unlock(t, hold)
		}
	})
}

func TestTriesDoNotWait(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		l := rwlock.New(usertest.Client(t, s), lockmw.WithWait(time.Hour))
		_, hold, err := l.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, try := range []call{l.TryLock, l.TryRLock} {
			if _, _, err := try(t.Context(), "k", lockmw.WithWait(time.Hour)); !errors.Is(err, lockmw.ErrBusy) {
				t.Errorf("a try of a held lock: %v, want ErrBusy", err)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("two tries took %v", took)
		}
		usertest.Unlock(t, hold)
	})
}

func TestTryLockOfAReaderIsAnUpgrade(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		l := rwlock.New(usertest.Client(t, s))
		ctx, hold, err := l.TryRLock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for _, upgrade := range []call{l.TryLock, l.Lock} {
			_, _, err := upgrade(ctx, "k")
			if !errors.Is(err, lockmw.ErrUpgrade) {
				t.Errorf("an upgrade: %v, want ErrUpgrade", err)
			}
		}
		usertest.Unlock(t, hold)
	})
}

func TestOptionsOfNewAreDefaultsOfBothSides(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var attempts []lockmw.Attempt
		l := rwlock.New(usertest.Client(t, s, lockmw.WithName("client"), lockmw.WithLease(time.Hour)),
			lockmw.WithName("locker"), lockmw.WithObserver(&lockmw.Observer{
				Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
					attempts = append(attempts, a)
					return ctx
				},
			}))
		for _, method := range []call{l.Lock, l.RLock} {
			_, hold, err := method(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			usertest.Unlock(t, hold)
		}
		if len(attempts) != 2 || attempts[0].Mode != "write" || attempts[1].Mode != "read" {
			t.Fatalf("the attempts are %+v", attempts)
		}
		for _, a := range attempts {
			if a.Name != "locker" || a.Policy.Lease != time.Hour {
				t.Errorf("%s: the name is %q and the lease %v", a.Mode, a.Name, a.Policy.Lease)
			}
		}
	})
}

func TestNewRefusesInvalidArguments(t *testing.T) {
	c := usertest.Client(t, redistest.Piped(t))
	for name, do := range map[string]func(){
		"no client":         func() { rwlock.New(nil) },
		"an invalid option": func() { rwlock.New(c, lockmw.WithWait(-1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New with %s does not panic", name)
				}
			}()
			do()
		}()
	}
}

func TestNewRefusesToKeepPlaces(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		l := rwlock.New(usertest.Client(t, s))
		for _, method := range []call{l.Lock, l.TryLock, l.RLock, l.TryRLock} {
			_, _, err := method(t.Context(), "k", lockmw.WithPlace("42", time.Minute))
			if !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("with a place: %v, want ErrInvalidOption", err)
			}
		}
	})
}
