package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// insistTimeout is after how long without an answer insist tries again. What is late does no harm.
const insistTimeout = time.Second

// A prepareCall prepares a run of a script.
type prepareCall func(context.Context, *script.Set, func(*transport.Reply)) *transport.Call

// A readAnswer reads the answer, and says whether to try again after an error.
type readAnswer func(*transport.Reply) (again bool, err error)

// unended is for what is tried until its context ends.
func unended() error { return nil }

// insist runs a script until read finds no error in its answer, or none after which to try again, or ctx ends, or ended
// returns an error.
func (e *Engine) insist(ctx context.Context, ended func() error, prepare prepareCall, read readAnswer) error {
	var failures outage
	var last error
	for {
		again, err := e.try(ctx, prepare, read)
		if err == nil || !again {
			return err
		}
		if last == nil || !errors.Is(err, localq.ErrSilent) {
			last = err
		}
		if err := e.await(ctx, failures.note(clock.Now()), last); err != nil {
			return err
		}
		if err := ended(); err != nil {
			return err
		}
	}
}

// await pauses before the next try. It returns an error if there is none: with the last reply, if ctx has ended.
func (e *Engine) await(ctx context.Context, d time.Duration, last error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-e.sender.Context().Done():
		return core.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", last, ctx.Err())
	}
}

// try runs a script once for insist.
func (e *Engine) try(ctx context.Context, prepare prepareCall, read readAnswer) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, insistTimeout)
	defer cancel()
	answers := make(chan *transport.Reply, 1)
	e.sender.Start(prepare(ctx, e.scripts, func(r *transport.Reply) { answers <- r }))
	select {
	case r := <-answers:
		return read(r)
	case <-ctx.Done():
		return true, localq.ErrSilent
	}
}

// isPassing reports whether it may help to run a script again that was answered so (rules 14 and 21 of docs/protocol.md).
func isPassing(a *transport.Reply) bool { return transport.IsPassing(a.Err) || a.Few != nil }
