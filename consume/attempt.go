package consume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// errNotBegun is wrapped in the error of an attempt that did not get its lock.
var errNotBegun = errors.New("the message was not begun")

// settle tries a message until it is done, and reports it. It returns false if the Partition was closed before.
func (p *Partition[M]) settle(m *message[M]) bool {
	longest := p.queue.shortest
	for failures := 0; p.mayBegin(m); {
		err := p.attempt(m)
		if err != nil && !errors.Is(err, errNotBegun) && p.open.Err() == nil {
			failures++
			err = p.giveUp(m, failures, err)
		}
		if err == nil {
			p.report(m)
			return true
		}
		p.fails(m)
		if p.open.Err() != nil {
			return false
		}
		_ = protect(func() error { p.queue.log(m, failures, err); return nil }) // the logger may panic
		pause.For(p.open, longest/2+rand.N(longest/2+1))
		longest = min(2*longest, p.queue.longest)
	}
	return false
}

// attempt handles a message once, under its lock.
func (p *Partition[M]) attempt(m *message[M]) error {
	if m.invalid != nil {
		return m.invalid
	}
	ctx, cancel := p.handlerContext(m)
	defer cancel(nil)
	begun := false
	handle := func(ctx context.Context) error {
		if begun = p.begins(m); !begun {
			return ErrClosed
		}
		return protect(func() error { return p.queue.handle(ctx, m.content) })
	}
	err := p.locked(ctx, m, cancel, handle)
	if begun || errors.Is(err, lockmw.ErrInvalidKey) {
		return err
	}
	return fmt.Errorf("%w: %w", errNotBegun, err)
}

// locked calls handle under the lock of a message, if it has one. Close ends the wait for it, unless the message may begin all the same.
func (p *Partition[M]) locked(ctx context.Context, m *message[M], endWait context.CancelCauseFunc, handle func(context.Context) error) error {
	if m.key == "" {
		return handle(ctx)
	}
	stop := context.AfterFunc(p.open, func() {
		if !p.mayBegin(m) {
			endWait(ErrClosed)
		}
	})
	defer stop()
	return lockmw.Do(ctx, p.queue.locks, m.key, handle, p.queue.lockOpts...)
}

// handlerContext returns a context with the values of Submit's, which ends when handlers have to. cancel releases it.
func (p *Partition[M]) handlerContext(m *message[M]) (ctx context.Context, cancel context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(m.ctx)
	stop := context.AfterFunc(p.handlers, func() { end(context.Cause(p.handlers)) })
	return ctx, func(cause error) { stop(); end(cause) }
}

// giveUp asks GiveUp, which gets the context of a handler without a lock.
func (p *Partition[M]) giveUp(m *message[M], attempt int, err error) error {
	ctx, cancel := p.handlerContext(m)
	defer cancel(nil)
	return protect(func() error { return p.queue.giveUp(ctx, m.content, attempt, err) })
}

// protect calls a function of the caller. A panic is an error of the message, which would otherwise end one process after the other.
func protect(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, v, debug.Stack())
		}
	}()
	return call()
}

func (q *Queue[M]) log(m *message[M], failures int, err error) {
	kind, text := "failed", "consume: a message has failed and is tried again; the later ones of its key wait"
	if errors.Is(err, errNotBegun) {
		kind, text = "not begun", "consume: a message did not get its lock and tries again"
	}
	if missed, ok := q.lines.Allow(kind); ok {
		observe.LoggerOf(q.locks).WarnContext(m.ctx, text, "key", m.key, "failures", failures, "error", err, "more_lines", missed)
	}
}
