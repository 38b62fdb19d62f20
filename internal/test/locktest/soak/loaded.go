package soak

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// A loaded is a hold of a loader.
type loaded struct {
	loader *loader
	key    string
	hold   atomic.Pointer[lockmw.Hold] // nil until its grant is reported
}

func (h *loaded) granted(hold *lockmw.Hold, asked, now time.Time) {
	h.loader.count("granted")
	h.loader.report(&loadReport{
		Event: loadGranted, Key: h.key, Token: hold.Token(),
		Asked: judge.MachineTime(asked), At: judge.MachineTime(now), Deadline: judge.MachineTime(hold.Deadline()),
	})
	h.hold.Store(hold)
}

// renewed reports a renewal by the watchdog.
func (h *loaded) renewed(err error) {
	hold := h.hold.Load()
	if hold == nil {
		return
	}
	if err != nil {
		h.loader.count("renewal failed")
		return
	}
	h.loader.count("renewed")
	h.loader.report(&loadReport{Event: loadRenewed, Key: h.key, Token: hold.Token(), Deadline: judge.MachineTime(hold.Deadline())})
}

// work passes the time of a hold, and sometimes makes a nested call.
func (h *loaded) work(ctx context.Context, p *plan) {
	if p.nested {
		h.nest(ctx)
	}
	env.Sleep(ctx, p.work)
	h.look(ctx)
}

// look checks that the context has not outlived the deadline. A holder that was stopped runs this when it continues.
func (h *loaded) look(ctx context.Context) {
	before := time.Now()
	if err := ctx.Err(); err == nil && !before.Before(h.hold.Load().Deadline()) {
		h.loader.wrong(h.key, "token %d: the context is alive after the deadline", h.hold.Load().Token())
	}
}

// nest re-enters the lock in its own context.
func (h *loaded) nest(ctx context.Context) {
	outer := h.hold.Load()
	_, inner, err := h.loader.locker.Lock(ctx, h.key)
	switch {
	case err == nil:
		h.loader.count("nested")
		if inner.Token() != outer.Token() {
			h.loader.wrong(h.key, "a nested hold of token %d has token %d", outer.Token(), inner.Token())
		}
		if err := inner.Unlock(); err != nil {
			h.check("nested Unlock", outer, err)
		}
	case ctx.Err() == nil:
		h.check("nested Lock", outer, err)
	}
}

// unlock ends the hold.
func (h *loaded) unlock(ctx context.Context) {
	hold := h.hold.Load()
	h.loader.report(&loadReport{
		Event: loadEnded, Key: h.key, Token: hold.Token(),
		At: judge.MachineTime(time.Now()), Deadline: judge.MachineTime(hold.Deadline()),
	})
	switch err := hold.Unlock(); {
	case err == nil:
	case errors.Is(err, lockmw.ErrUnavailable):
		h.loader.count("release unconfirmed")
	default:
		h.loader.count("lost")
		h.check("Unlock", hold, err)
	}
}

// check reports any error that is not a loss, and any loss before the deadline.
func (h *loaded) check(what string, hold *lockmw.Hold, err error) {
	now := time.Now()
	switch deadline := hold.Deadline(); {
	case !errors.Is(err, lockmw.ErrLost):
		h.loader.wrong(h.key, "token %d: %s: %v", hold.Token(), what, err)
	case now.Before(deadline):
		h.loader.wrong(h.key, "token %d: %s: lost %v before its deadline: %v", hold.Token(), what, deadline.Sub(now), err)
	}
}
