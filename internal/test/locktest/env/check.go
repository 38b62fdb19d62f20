package env

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/redistest"
)

// A Reporter is a *testing.T or a *rapid.T.
type Reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	FailNow()
	Failed() bool
	Cleanup(f func())
}

// Checks are the assertions of a scenario.
type Checks struct {
	T    Reporter
	Soon time.Duration // the bound for "immediately"
	Pace *judge.Pace
}

// Is checks that err is one of want.
func (c *Checks) Is(what string, err error, want ...error) {
	c.T.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			c.T.Errorf("%s: %v; want an error that wraps %q", what, err, w)
		}
	}
}

// Ends checks that ctx ends within Patience.
func (c *Checks) Ends(ctx context.Context) bool {
	c.T.Helper()
	select {
	case <-ctx.Done():
		return true
	case <-time.After(Patience):
		c.T.Error("the context did not end")
		return false
	}
}

// Eventually waits until done returns "". After within it reports done's last result.
func (c *Checks) Eventually(within time.Duration, done func() string) {
	c.T.Helper()
	if missing := Await(c.Pace, within, done); missing != "" {
		c.T.Errorf("after %v: %s", within, missing)
	}
}

// Next returns the next value, and fails after Patience.
func Next[T any](e *Env, from <-chan T) (v T) {
	e.T.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		e.T.Fatalf("nothing received after %v", Patience)
	}
	return v
}

// Renewal returns the result of the next renewal that an observer reports. It skips late answers, which are normal on a busy
// machine. With several servers it also skips broken connections: there the watchdog retries, not go-redis.
func Renewal(e *Env, from <-chan error) error {
	e.T.Helper()
	for {
		err := Next(e, from)
		late := err != nil && strings.Contains(err.Error(), "no answer to a renewal yet")
		if broken := e.Config.Several && errors.Is(err, io.EOF); !late && !broken {
			return err
		}
	}
}

// Caught waits until the fault has caught its command.
func (c *Checks) Caught(f *redistest.Fault) {
	c.T.Helper()
	select {
	case <-f.Caught():
	case <-time.After(Patience):
		c.T.Fatal("the command for the fault was not sent")
	}
}
