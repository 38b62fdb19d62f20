package mounttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// patience is a wait that a test never sees the end of.
var patience = lockmw.WithWait(5 * time.Minute)

// maxHold is the time in which a method has to begin, also on a busy machine. Tests await its end.
const maxHold = time.Second

// Cases are the same in every protocol.
func Cases() []Case { return append(refused(), handled()...) }

// refused are cases in which the call does not get its lock.
func refused() []Case {
	return []Case{
		{Name: "the lock is busy", HTTP: "409 lock-busy", RPC: "aborted", Retries: true, busy: true},
		{
			Name: "the lock is still busy after the wait", HTTP: "503 lock-timeout", RPC: "aborted", Retries: true,
			busy: true, options: []lockmw.Option{lockmw.WithWait(20 * time.Millisecond)},
		},
		{
			Name: "the caller's deadline passes during the wait", HTTP: "503 lock-timeout", RPC: "deadline_exceeded", Retries: true,
			options: []lockmw.Option{patience}, waiting: func(_ *testing.T, w waiter) { w.pass() },
		},
		{
			Name: "the caller leaves during the wait", HTTP: "499", RPC: "canceled",
			options: []lockmw.Option{patience}, waiting: func(_ *testing.T, w waiter) { w.cancel() },
		},
		{
			Name: "the Client is shut down during the wait", HTTP: "503 lock-unavailable", RPC: "unavailable", Retries: true,
			options: []lockmw.Option{patience}, locks: client(nil), waiting: shutDown,
		},
		{
			Name: "too many calls wait", HTTP: "503 lock-too-many-waiters", RPC: "resource_exhausted", Retries: true,
			locks: failing(lockmw.ErrTooManyWaiters),
		},
		{
			Name: "Redis is unavailable", HTTP: "503 lock-unavailable", RPC: "unavailable", Retries: true,
			locks: failing(lockmw.ErrUnavailable),
		},
		{
			Name: "Redis is down during the wait", HTTP: "503 lock-unavailable", RPC: "unavailable", Retries: true,
			locks: client(stop), options: []lockmw.Option{lockmw.WithWait(300 * time.Millisecond)},
		},
		{
			Name: "the connection to Redis is closed", HTTP: "503 lock-unavailable", RPC: "unavailable", Retries: true,
			locks: client(disconnect),
		},
		{Name: "the Client is closed", HTTP: "503 lock-unavailable", RPC: "unavailable", Retries: true, locks: failing(lockmw.ErrClosed)},
		{Name: "an outer lock was lost", HTTP: "500 lock-lost", RPC: "internal", locks: failing(lockmw.ErrLost)},
		{Name: "Locker fails in another way", HTTP: "500 about:blank", RPC: "internal", locks: failing(errors.New("lua"))},
		{Name: "the key is missing", HTTP: "400 lock-invalid-key", RPC: "invalid_argument", key: lockmw.By("user", func(string) string { return "" })},
		{Name: "the key has 2 kB", HTTP: "400 lock-invalid-key", RPC: "invalid_argument", user: strings.Repeat("x", 2000)},
		{
			Name: "the key function fails", HTTP: "500 about:blank", RPC: "internal",
			key: func(context.Context, string) (string, error) { return "", errors.New(secret) },
		},
		{
			Name: "the key function finds its source unavailable", HTTP: "503 lock-unavailable", RPC: "unavailable", Retries: true,
			key: func(context.Context, string) (string, error) {
				return "", fmt.Errorf("%w: %s", lockmw.ErrUnavailable, secret)
			},
		},
	}
}

// handled are cases in which the method is called.
func handled() []Case {
	return []Case{
		{Name: "the lock is free", HTTP: "201", RPC: "ok", Runs: true},
		{
			Name: "the lock becomes free during the wait", HTTP: "201", RPC: "ok", Runs: true,
			options: []lockmw.Option{patience}, waiting: func(_ *testing.T, w waiter) { w.release() },
		},
		{Name: "another user's lock is busy", HTTP: "201", RPC: "ok", Runs: true, busy: true, user: "43"},
		{
			Name: "the key function wants no lock", HTTP: "201", RPC: "ok", Runs: true,
			busy: true, key: func(context.Context, string) (string, error) { return "", lockmw.ErrNoLock },
		},
		{
			Name: "Redis is down, and the lock fails open", HTTP: "201", RPC: "ok", Runs: true,
			locks: client(stop), options: []lockmw.Option{lockmw.WithFailOpen()},
		},
		{Name: "the lock is mounted twice", HTTP: "201", RPC: "ok", Runs: true, mounts: 2},
		{
			Name: "the method enters its lock again", HTTP: "201", RPC: "ok", Runs: true,
			handle: func(ctx context.Context, l *lockmw.Local) error {
				_, hold, err := l.TryLock(ctx, "user:42")
				return errors.Join(err, hold.Unlock())
			},
		},
		{
			Name: "the method asks for its hold", HTTP: "201", RPC: "ok", Runs: true,
			handle: func(ctx context.Context, _ *lockmw.Local) error { _, err := lockmw.Held(ctx, "user:42"); return err },
		},
		{
			Name: "the method releases its lock", HTTP: "201", RPC: "ok", Runs: true,
			handle: func(ctx context.Context, _ *lockmw.Local) error {
				hold, _ := lockmw.FromContext(ctx)
				return hold.Unlock()
			},
		},
		{
			Name: "the method refuses", HTTP: "422", RPC: "not_found", Runs: true,
			handle: func(context.Context, *lockmw.Local) error { return ErrNoStock },
		},
		{
			Name: "the method panics", HTTP: "500", RPC: "internal", Runs: true,
			handle: func(context.Context, *lockmw.Local) error { panic(secret) },
		},
		{Name: "the lock is lost, and the method succeeds", HTTP: "500 lock-lost", RPC: "internal", Runs: true, handle: losing(nil)},
		{Name: "the lock is lost, and the method returns that", HTTP: "500 lock-lost", RPC: "internal", Runs: true, handle: losing(context.Cause)},
		{Name: "the outer of two locks is lost", HTTP: "500 lock-lost", RPC: "internal", Runs: true, mounts: 2, handle: losing(nil)},
		{
			Name: "the maximum hold ends", HTTP: "500 lock-lost", RPC: "internal", Runs: true,
			options: []lockmw.Option{lockmw.WithMaxHold(maxHold)},
			handle:  func(ctx context.Context, _ *lockmw.Local) error { return lost(ctx) },
		},
	}
}

// lost returns when the lock of ctx is lost.
func lost(ctx context.Context) error {
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
		panic(fmt.Sprintf("the context ended with %v", cause))
	}
	return nil
}

// losing is a method whose lock is lost while it runs.
func losing(returned func(context.Context) error) func(context.Context, *lockmw.Local) error {
	return func(ctx context.Context, l *lockmw.Local) error {
		l.Expire("user:42")
		if err := lost(ctx); err != nil || returned == nil {
			return err
		}
		return returned(ctx)
	}
}

// disconnect closes the connection, which is certain to stay closed.
func disconnect(_ *testing.T, _ *redistest.Server, rdb *redis.Client) { _ = rdb.Close() }

// stop stops the server. It comes back at the end of the test, so that the Client need not wait for it.
func stop(t *testing.T, s *redistest.Server, _ *redis.Client) {
	s.Mini.Close()
	t.Cleanup(func() {
		if err := s.Mini.Restart(); err != nil {
			t.Error(err)
		}
	})
}

// client is a Client of an embedded server, to which something happens first.
func client(first func(*testing.T, *redistest.Server, *redis.Client)) func(*testing.T, *lockmw.Local) lockmw.Locker {
	return func(t *testing.T, _ *lockmw.Local) lockmw.Locker {
		s := redistest.Mini(t)
		rdb := s.NewClient(t, func(o *redis.Options) { o.DialerRetries = 1 }) // detects an outage sooner
		c := usertest.Abandoned(t, rdb)
		if first != nil {
			first(t, s, rdb)
		}
		return c
	}
}

// shutDown shuts the Client of a waiting call down. It ends when the lock is released, at the end of the test.
func shutDown(t *testing.T, w waiter) {
	done := make(chan error, 1)
	go func() { done <- w.locks.(*lockmw.Client).Shutdown(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		w.release()
		if err := usertest.Receive(t, "Shutdown", done); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}
