package env

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/locktest/judge"
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

// Checks are what a scenario says of what it sees.
type Checks struct {
	T    Reporter
	Soon time.Duration // the bound for what happens at once
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

// Ends checks that ctx does, before Patience does.
func (c *Checks) Ends(ctx context.Context) bool {
	c.T.Helper()
	select {
	case <-ctx.Done():
		return true
	case <-time.After(Patience):
		c.T.Error("the context does not end")
		return false
	}
}

// Eventually waits until done returns nothing, and else reports what it returned last.
func (c *Checks) Eventually(within time.Duration, done func() string) {
	c.T.Helper()
	if missing := c.Pace.Await(within, done); missing != "" {
		c.T.Errorf("after %v: %s", within, missing)
	}
}

// Next returns what comes next.
func Next[T any](e *Env, from <-chan T) (v T) {
	e.T.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		e.T.Fatalf("nothing has come after %v", Patience)
	}
	return v
}

// Renewal returns how the next renewal of those that an observer reports ends. That an answer is late, as on a busy
// machine, is no end. Nor is a connection that breaks on the way to one of several servers: go-redis does not send it again there,
// as it does to one, but the watchdog does.
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

// Caught waits until a fault has met its command.
func (c *Checks) Caught(f *redistest.Fault) {
	c.T.Helper()
	select {
	case <-f.Caught():
	case <-time.After(Patience):
		c.T.Fatal("the command to disturb was not sent")
	}
}
