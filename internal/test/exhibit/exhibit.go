// Package exhibit shows observers every way in which waits, holds, renewals and calls of package idempotency end.
package exhibit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// An exhibit is a set of locks of all modes, on Redis and in the process, whose waits, holds and renewals end in every way.
type exhibit struct {
	*testing.T
	server *redistest.Server
	key    string // the prefix of all keys
	opts   []lockmw.Option
	locks  *lockmw.Client
}

// Run shows an exhibit to observers. All its keys begin with key. It takes a minute of a bubble's time.
func Run(t *testing.T, key string, observers ...*lockmw.Observer) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		e := &exhibit{T: t, server: s, key: key, opts: []lockmw.Option{lockmw.WithLabel("req-7")}}
		for _, o := range observers {
			e.opts = append(e.opts, lockmw.WithObserver(o))
		}
		e.locks = usertest.Client(t, s, lockmw.JoinOptions(e.opts...))
		e.modes()
		e.failures()
		e.deadlock()
		e.renewals()
		e.losses()
		e.calls()
		e.outage()
	})
}

// modes makes one call wait for another in every mode.
func (e *exhibit) modes() {
	rw, local := rwlock.New(e.locks), lockmw.NewLocal(e.opts...)
	for _, l := range []lockmw.Locker{e.locks, fairlock.New(e.locks), rw, rw.RLocker()} {
		e.waitFor(e.locks, l, e.key+"/modes")
	}
	for _, l := range []lockmw.Locker{local, local.RLocker()} {
		e.waitFor(local, l, e.key+"/modes")
	}
	permits := semaphore.New(e.locks, 1)
	e.waitFor(permits, permits, e.key+"/permits") // a lock and a semaphore do not share a key
	_, hold := usertest.Lock(e.T, e.Context(), e.locks, e.key+"/modes", lockmw.WithWait(0))
	usertest.Unlock(e.T, hold)
	run := func(context.Context) error { return nil }
	if err := lockmw.Lead(e.Context(), e.locks, e.key+"/lead", run); err != nil {
		e.Error(err)
	}
	if _, err := lockmw.Once(e.Context(), e.locks, e.key+"/once", lockmw.Tick{At: time.Now()}, run); err != nil {
		e.Error(err)
	}
}

func (e *exhibit) waitFor(before, l lockmw.Locker, key string) {
	_, first := usertest.Lock(e.T, e.Context(), before, key)
	done := make(chan struct{})
	contended, waits := usertest.OnContended(e.T)
	go func() {
		defer close(done)
		_, second := usertest.Lock(e.T, e.Context(), l, key, contended)
		usertest.Unlock(e.T, second)
	}()
	waits()
	time.Sleep(time.Second)
	usertest.Unlock(e.T, first)
	<-done
}

// failures makes waits end without the lock.
func (e *exhibit) failures() {
	key := e.key + "/failures"
	_, hold := usertest.Lock(e.T, e.Context(), e.locks, key)
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	time.AfterFunc(time.Second, cancel)
	usertest.Refused(e.T, e.Context(), e.locks, key, lockmw.WithWait(0))
	usertest.Refused(e.T, ctx, e.locks, key)
	usertest.Refused(e.T, e.Context(), e.locks, key, lockmw.WithWait(time.Second))
	usertest.Unlock(e.T, hold)
}

// deadlock makes two calls wait for each other, one of which fails.
func (e *exhibit) deadlock() {
	a, b := e.key+"/deadlock/a", e.key+"/deadlock/b"
	ctx, first := usertest.Lock(e.T, e.Context(), e.locks, a)
	time.Sleep(time.Millisecond) // the second is the newer one
	inner, second := usertest.Lock(e.T, e.Context(), e.locks, b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, third := usertest.Lock(e.T, ctx, e.locks, b)
		usertest.Unlock(e.T, third)
	}()
	if _, _, err := e.locks.Lock(inner, a); !errors.Is(err, lockmw.ErrDeadlock) {
		e.Errorf("in a deadlock: %v", err)
	}
	usertest.Unlock(e.T, second)
	<-done
	usertest.Unlock(e.T, first)
}

func (e *exhibit) renewals() {
	_, hold := usertest.Lock(e.T, e.Context(), e.locks, e.key+"/renewals")
	time.Sleep(time.Minute)
	usertest.Unlock(e.T, hold)
}

// losses are the loss of a lock that a renewal does not find, and of one that has expired.
func (e *exhibit) losses() {
	ctx, hold := usertest.Lock(e.T, e.Context(), e.locks, e.key+"/lost")
	e.server.Mini.FlushAll()
	<-ctx.Done()
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		e.Errorf("unlocking a lost lock: %v", err)
	}
	local := lockmw.NewLocal(e.opts...)
	_, hold = usertest.Lock(e.T, e.Context(), local, e.key+"/expired")
	local.Expire(e.key + "/expired")
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		e.Errorf("unlocking a lost lock: %v", err)
	}
}

// outage is a server that refuses a renewal, a release and a lock, with an error that contains the key.
func (e *exhibit) outage() {
	key := e.key + "/outage"
	_, hold := usertest.Lock(e.T, e.Context(), e.locks, key)
	e.server.Mini.SetError("LOADING " + key)
	time.Sleep(20 * time.Second)
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrUnavailable) {
		e.Errorf("unlocking without a server: %v", err)
	}
	if _, _, err := e.locks.Lock(e.Context(), key, lockmw.WithWait(time.Second)); !errors.Is(err, lockmw.ErrUnavailable) {
		e.Errorf("locking without a server: %v", err)
	}
	refuse := idempotency.WithWait(time.Second)
	e.wants(e.do(e.Context(), e.once(refuse), "/outage", "", func(context.Context) error { return nil }), lockmw.ErrUnavailable)
	e.server.Mini.SetError("")
}
