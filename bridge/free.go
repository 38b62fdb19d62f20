package bridge

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
)

// giveUp frees a hold that its caller does not get. It returns soon, even if a server does not answer.
func (h *hold) giveUp() {
	h.mu.Lock()
	h.Over, h.Abandoned = true, true
	h.mu.Unlock()
	h.end()
	h.call.locks.background.Go(func() { h.free(tryPatience) })
	ctx, cancel := context.WithTimeout(h.call.ctx, localq.GiveUpPatience)
	defer cancel()
	select {
	case <-h.freed:
	case <-ctx.Done():
	}
}

// free releases the old key and then the lock, once. The lock is last, so that the next call of a bridge finds the old key free.
func (h *hold) free(patience time.Duration) {
	if h.freeing.Swap(true) {
		<-h.freed
		return
	}
	defer close(h.freed)
	var oldErr, innerErr error
	begun := time.Now()
	if h.begun.Load() || h.leftovers {
		oldErr = h.freeOld(patience * 3 / 4)
	}
	left := patience // the lock of lockmw makes more of its full time than of a little less
	if spent := time.Since(begun); spent > patience/4 {
		left = max(patience-spent, patience/4)
	}
	h.waiters, innerErr = h.inner.Release(left)
	h.freeErr = cmp.Or(oldErr, innerErr)
	if errors.Is(innerErr, core.ErrLost) {
		h.freeErr = innerErr
	}
}

// releaseTry is how long one of several tries to release an old key may take: its connection may be dead.
const releaseTry = 500 * time.Millisecond

// freeOld releases the old key. If it cannot, or if one of several keys has not answered, it continues in the background.
func (h *hold) freeOld(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t, err := h.releaseOld(ctx, minPollPause)
	if t.err == nil || !mayPass(t.err) {
		return err
	}
	rest := tryPatience
	if err != nil {
		rest = max(clock.Until(h.ownDeadline()), tryPatience) // until its lease ends
	}
	h.call.locks.background.Go(func() { h.freeOldLater(rest) })
	return err
}

// freeOldLater releases the old key when its servers answer again. After Close it still has tryPatience for that.
func (h *hold) freeOldLater(rest time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	closing := context.AfterFunc(h.call.locks.closed, func() { time.AfterFunc(tryPatience, cancel) })
	defer closing()
	for ctx.Err() == nil {
		if t, _ := h.releaseOld(ctx, maxPollPause); t.err == nil || !mayPass(t.err) {
			return
		}
		pause.For(ctx, maxPollPause)
	}
}

// releaseOld tries to release the old key until enough keys are released, or cannot be. The key stays taken for the rest of a
// minimum hold.
func (h *hold) releaseOld(ctx context.Context, rest time.Duration) (tally, error) {
	var refusal error // it says more than that a later try was not answered
	for {
		h.mu.Lock()
		linger := h.Linger()
		h.mu.Unlock()
		try, cancel := context.WithTimeout(ctx, releaseTry)
		t := h.old.release(try, linger)
		cancel()
		if transport.IsReply(t.err) {
			refusal = t.err
		}
		switch {
		case h.old.isHeld(t):
			return t, nil
		case t.err == nil || h.old.isLost(t):
			return t, h.old.err().lost("is gone, or another holder has it")
		case !transport.IsTemporary(t.err) || !pause.For(ctx, rest):
			return t, h.old.err().failed(cmp.Or(refusal, t.err))
		}
	}
}

// mayPass reports whether a server that refuses to release a key may accept it later.
func mayPass(err error) bool { return transport.IsTemporary(err) || transport.IsFull(err) }
