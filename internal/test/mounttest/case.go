// Package mounttest has the promises of docs/http.md and docs/recipes.md as lists of cases, for every framework in which locks can be
// mounted. It knows no framework: the tests of each one bring an adapter.
package mounttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// ErrNoStock is an error of a handler. HTTP answers it with 422, and RPC with not_found.
var ErrNoStock = errors.New("no stock")

// secret is in the errors of Redis, and must not reach a client.
const secret = "10.0.0.7"

// A Service has one locked method. Each user has a lock, user:42.
type Service struct {
	Locks   lockmw.Locker
	Options []lockmw.Option
	Key     lockmw.KeyFunc[string]      // of the user
	Mounts  int                         // how often the lock is mounted
	Handle  func(context.Context) error // the method; its errors are ErrNoStock or others
}

// A Mount mounts the lock of a service, with recovery from panics outside, and returns its client.
type Mount func(t *testing.T, s Service) (call func(ctx context.Context, user string) Answer)

// An Answer is what a client gets.
type Answer struct {
	Outcome string        // "409 lock-busy" or "201" in HTTP; "aborted" or "ok" in RPC
	Retry   time.Duration // when to try again; 0: nothing is said
	Text    string        // everything that the answer contains
}

// A Case is a situation, and what a client gets in it.
type Case struct {
	Name    string
	HTTP    string // the outcome
	RPC     string
	Retries bool // the client learns when to try again
	Runs    bool // the method is called

	user    string // "": 42
	busy    bool   // the user's lock is held elsewhere
	mounts  int    // 0: 1
	locks   func(*testing.T, *lockmw.Local) lockmw.Locker
	options []lockmw.Option
	key     lockmw.KeyFunc[string]
	handle  func(context.Context, *lockmw.Local) error
	waiting func(*testing.T, waiter) // called when the call waits for a lock that is held elsewhere
}

// A waiter is a call that waits.
type waiter struct {
	release func() // frees the lock
	cancel  context.CancelFunc
	pass    context.CancelFunc // the deadline of the caller passes
	locks   lockmw.Locker
}

// Run plays the case. want is its outcome in the protocol of the mount.
func (c *Case) Run(t *testing.T, mount Mount, want string) {
	t.Parallel()
	local := lockmw.NewLocal()
	locks := lockmw.Locker(local)
	if c.locks != nil {
		locks = c.locks(t, local)
	}
	var runs atomic.Int32
	options, waits := c.options, func() {}
	if c.waiting != nil {
		var contended lockmw.Option
		contended, waits = usertest.OnContended(t)
		options = append(slices.Clip(options), contended)
	}
	call := mount(t, Service{
		Locks: locks, Options: options, Key: c.keyFunc(), Mounts: max(c.mounts, 1),
		Handle: func(ctx context.Context) error {
			runs.Add(1)
			if c.handle == nil {
				return nil
			}
			return c.handle(ctx, local)
		},
	})
	answer := c.call(t, locks, waits, call)
	if answer.Outcome != want {
		t.Errorf("got %s, want %s: %s", answer.Outcome, want, answer.Text)
	}
	retries := c.Retries && want != "deadline_exceeded" // that caller has given up itself
	if retries != (answer.Retry > 0) {
		t.Errorf("the client is told to try again after %v", answer.Retry)
	}
	if ran := runs.Load() > 0; ran != c.Runs {
		t.Errorf("the method was called %d times", runs.Load())
	}
	if strings.Contains(answer.Text, secret) || strings.Contains(answer.Text, "user:") {
		t.Errorf("the client sees a secret: %s", answer.Text)
	}
	if !c.busy && c.waiting == nil && !usertest.IsFree(local, "user:42") {
		t.Error("the lock is not free afterwards")
	}
}

func (c *Case) keyFunc() lockmw.KeyFunc[string] {
	if c.key != nil {
		return c.key
	}
	return lockmw.By("user", func(user string) string { return user })
}

// call makes one call, while the lock is held elsewhere if it is to be busy.
func (c *Case) call(t *testing.T, locks lockmw.Locker, waits func(), call func(context.Context, string) Answer) Answer {
	ctx, pass := usertest.WithDeadline(t.Context())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	user := cmp.Or(c.user, "42")
	if !c.busy && c.waiting == nil {
		return call(ctx, user)
	}
	release := usertest.Occupy(t, locks, "user:42")
	if c.waiting == nil {
		return call(ctx, user)
	}
	answered := make(chan Answer, 1)
	go func() { answered <- call(ctx, user) }()
	waits()
	c.waiting(t, waiter{release, cancel, pass, locks})
	return usertest.Receive(t, "the answer", answered)
}

// Code returns a code of gRPC or of connect as Case has it: deadline_exceeded.
func Code(code fmt.Stringer) string {
	return strings.ToLower(camel.ReplaceAllString(code.String(), "${1}_${2}"))
}

var camel = regexp.MustCompile("([a-z])([A-Z])")

// failing is a Locker whose errors tell a secret.
func failing(err error) func(*testing.T, *lockmw.Local) lockmw.Locker {
	return func(*testing.T, *lockmw.Local) lockmw.Locker {
		return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: fmt.Errorf("%w: %s", err, secret)}
		})
	}
}
