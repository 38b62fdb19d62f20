// Package usertest contains what tests of packages that use locks share: clients and locks whose errors fail the test, and
// waits whose beginning a test can await.
package usertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// InBubble runs test with an embedded server, in a bubble where minutes pass immediately. The test must not be parallel to
// others.
func InBubble(t *testing.T, test func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // until go-redis' goroutines have ended
		test(t, redistest.Piped(t))
	})
}

// NoSelfWait calls call twice at a time. Each must wait for the same lock of c and then call work. The one that waits for the other
// must not log that it may wait for itself.
func NoSelfWait(t *testing.T, call func(t *testing.T, c *lockmw.Client, work func())) {
	t.Helper()
	InBubble(t, func(t *testing.T, s *redistest.Server) {
		const takes = 3 * time.Second
		var log Output
		c := Client(t, s, lockmw.WithLogger(log.Logger()))
		var calls sync.WaitGroup
		began := time.Now()
		for range 2 {
			calls.Go(func() { call(t, c, func() { time.Sleep(takes) }) })
		}
		calls.Wait()
		if time.Since(began) < 2*takes {
			t.Error("no call has waited for the other")
		}
		if got := log.String(); strings.Contains(got, "its own process holds") {
			t.Errorf("logged: %s", got)
		}
	})
}

// Client returns a Client of s, which stands for a process. It logs nothing unless opts say otherwise, and is closed when the
// test ends.
func Client(t testing.TB, s *redistest.Server, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	return ClientOf(t, s.NewClient(t), opts...)
}

// ClientOf is Client with the test's own connection.
func ClientOf(t testing.TB, rdb redis.UniversalClient, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	return client(t, rdb, opts, func(err error) {
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Abandoned is ClientOf with a server that may be unreachable when the test ends.
func Abandoned(t testing.TB, rdb redis.UniversalClient, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	return client(t, rdb, opts, func(error) {})
}

func client(t testing.TB, rdb redis.UniversalClient, opts []lockmw.ClientOption, closed func(error)) *lockmw.Client {
	t.Helper()
	silent := lockmw.WithLogger(slog.New(slog.DiscardHandler))
	c, err := lockmw.New(rdb, append([]lockmw.ClientOption{silent}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(c.Close()) })
	return c
}

// Inspector returns an Inspector.
func Inspector(t testing.TB, rdb redis.UniversalClient, opts ...lockmw.ClientOption) *lockmw.Inspector {
	t.Helper()
	i, err := lockmw.NewInspector(rdb, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// Lock takes a free lock.
func Lock(t testing.TB, ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	t.Helper()
	ctx, hold, err := l.Lock(ctx, key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, hold
}

// Unlock releases one or several holds that were not lost.
func Unlock(t testing.TB, hold interface{ Unlock() error }) {
	t.Helper()
	if err := hold.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// Refused tries to take a busy lock.
func Refused(t testing.TB, ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) {
	t.Helper()
	if _, _, err := l.Lock(ctx, key, opts...); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("locking %s: %v, want ErrBusy", key, err)
	}
}

// Occupy holds key for another caller until the test ends or the returned function is called.
func Occupy(t testing.TB, l lockmw.Locker, key string) (release func()) {
	t.Helper()
	_, hold := Lock(t, context.Background(), l, key)
	release = sync.OnceFunc(func() { Unlock(t, hold) })
	t.Cleanup(release)
	return release
}

// IsFree reports whether key is free.
func IsFree(l lockmw.Locker, key string) bool {
	_, hold, err := l.Lock(context.Background(), key, lockmw.WithWait(0))
	return err == nil && hold.Unlock() == nil
}

// patience bounds waits on a busy machine.
const patience = 2 * time.Minute

// OnContended returns an option for a call, and a function that returns when the call waits.
func OnContended(t testing.TB) (call lockmw.Option, waits func()) {
	contended := make(chan struct{})
	call = lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(contended) },
	})
	return call, func() {
		t.Helper()
		select {
		case <-contended:
		case <-time.After(patience):
			t.Error("Contended is not called for a call that has to wait")
		}
	}
}

// WithDeadline returns a context whose deadline passes when the returned function is called. It has the values of ctx.
func WithDeadline(ctx context.Context) (limited context.Context, pass context.CancelFunc) {
	passed := make(chan struct{})
	return deadline{context.WithoutCancel(ctx), passed}, sync.OnceFunc(func() { close(passed) })
}

type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Eventually polls until done reports true, at most for limit. The error names what was awaited. The longer it has waited, the
// less often it polls: up to an eighth of the wait is added.
func Eventually(t testing.TB, what string, limit time.Duration, done func() bool) {
	t.Helper()
	const shortest, longest = 2 * time.Millisecond, 20 * time.Millisecond
	began := time.Now()
	for !done() {
		waited := time.Since(began)
		if waited > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(min(max(waited/8, shortest), longest))
	}
}

// Receive returns the next value of c, zero when it is closed. The error names what was awaited.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// Uncontended returns a function that takes and releases a lock of a Local without contention, to measure the cost of options.
func Uncontended(opts ...lockmw.Option) func() {
	local := lockmw.NewLocal(opts...)
	ctx := context.Background()
	return func() {
		_, hold, err := local.Lock(ctx, "item:7")
		if err == nil {
			err = hold.Unlock()
		}
		if err != nil {
			panic(err)
		}
	}
}

// An Output collects the text of several goroutines, such as a log or a standard error. The zero value is empty.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the text so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Len returns the length of the text so far, in bytes.
func (o *Output) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Len()
}

// Logger returns a logger that writes to o.
func (o *Output) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(o, nil)) }

// DefaultLog collects the output of slog's default logger until the test ends. The test must not be parallel to others.
func DefaultLog(t testing.TB) *Output {
	var o Output
	before := slog.Default()
	slog.SetDefault(o.Logger())
	t.Cleanup(func() { slog.SetDefault(before) })
	return &o
}

// Recovered returns the error with which f panics; nil if it does not.
func Recovered(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			err = fmt.Errorf("%v", p)
		}
	}()
	f()
	return nil
}

// WantPanic checks that f panics with a text that begins with prefix and contains says.
func WantPanic(t testing.TB, prefix, says string, f func()) {
	t.Helper()
	if err := Recovered(f); err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), says) {
		t.Errorf("panic %v, want one that begins with %q and contains %q", err, prefix, says)
	}
}

// Explains makes mistaken calls. Each has to return an error, or panic with one, that names the value that is nil or was not
// made by its constructor.
func Explains(t *testing.T, calls map[string]func() error) {
	t.Helper()
	for name, call := range calls {
		var returned error
		err := Recovered(func() { returned = call() })
		if err == nil {
			err = returned
		}
		var dereferenced runtime.Error
		if err == nil || errors.As(err, &dereferenced) || !strings.Contains(err.Error(), "nil") && !strings.Contains(err.Error(), "not made by") {
			t.Errorf("%s: %v, which does not name the mistake", name, err)
		}
	}
}
