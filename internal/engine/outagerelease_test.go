package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestAReleaseWaitsForTheServer(t *testing.T) {
	test := func(b *bubble, words string, begin, end func()) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		begin()
		released := make(chan error, 1)
		go func() {
			_, err := h.Release(b.e.cfg.UnlockTimeout)
			released <- err
		}()
		time.Sleep(b.e.cfg.UnlockTimeout / 2)
		synctest.Wait()
		if len(released) > 0 {
			b.Fatalf("Release has returned: %v", <-released)
		}
		end()
		if err := <-released; err != nil {
			b.Error(err)
		}
		b.wantFree()
	}
	inOutages(t, temporaryReplies, test)
	refused(t, test)
}

func TestAReleaseWhoseTimeHasEndedReturnsTheLastReply(t *testing.T) {
	test := func(b *bubble, words string, begin, end func()) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		begin()
		start := time.Now()
		_, err := h.Release(b.e.cfg.UnlockTimeout)
		b.wantUnavailable("Release", err, words)
		if took := time.Since(start); took < b.e.cfg.UnlockTimeout/2 || took > b.e.cfg.UnlockTimeout {
			b.Errorf("Release took %v", took)
		}
		try := b.requester(core.Exclusive)
		try.Wait = 0
		tries := b.call(b.e, try)
		<-tries.done
		b.wantUnavailable("a try after that", tries.err, words)
		end()
		time.Sleep(2 * maxCancelDelay) // it goes on in the background
		b.wantFree()
	}
	inOutages(t, temporaryReplies, test)
	refused(t, test)
}

// A Locker over the locks of another Client may have more time for its releases than that Client.
func TestAReleaseMayWaitLongerThanTheEngineDoesByDefault(t *testing.T) {
	inOutages(t, temporaryReplies[6:7], func(b *bubble, _ string, begin, end func()) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		begin()
		time.AfterFunc(3*b.e.cfg.UnlockTimeout, end)
		if _, err := h.Release(4 * b.e.cfg.UnlockTimeout); err != nil {
			b.Error(err)
		}
		b.wantFree()
	})
}

func TestATryIsNotHeldUpByAReleaseThatWaitsForTheServer(t *testing.T) {
	inOutages(t, temporaryReplies[5:6], func(b *bubble, words string, begin, end func()) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		begin()
		released := make(chan error, 1)
		go func() {
			_, err := h.Release(b.e.cfg.UnlockTimeout)
			released <- err
		}()
		time.Sleep(b.e.cfg.UnlockTimeout * 3 / 4) // go-redis has retried
		try := b.requester(core.Exclusive)
		try.Wait = 0
		tries := b.call(b.e, try)
		synctest.Wait()
		if !tries.returned() {
			b.Fatal("the try waits")
		}
		b.wantUnavailable("the try", tries.err, words)
		limited := b.requester(core.Exclusive)
		limited.Wait = 100 * time.Millisecond
		waits := b.call(b.e, limited)
		<-waits.done
		b.wantUnavailable("a call that waits for a moment", waits.err, words)
		end()
		if err := <-released; err != nil {
			b.Error(err)
		}
	})
}

func TestAReleaseThatWaitedKeepsTheKeyNoLonger(t *testing.T) {
	inOutages(t, temporaryReplies[:1], func(b *bubble, _ string, begin, end func()) {
		a := b.requester(core.Exclusive)
		a.MinHold = 3 * time.Second
		free := time.Now().Add(a.MinHold)
		h := a.acquire(b.T, b.e)
		begin()
		released := make(chan error, 1)
		go func() {
			_, err := h.Release(b.e.cfg.UnlockTimeout)
			released <- err
		}()
		time.Sleep(b.e.cfg.UnlockTimeout / 2)
		end()
		if err := <-released; err != nil {
			b.Error(err)
		}
		time.Sleep(time.Until(free) + 2*time.Millisecond)
		b.wantFree()
	})
}

func TestAReleaseThatWasCutOffIsDone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		waits := b.call(b.engine(), b.requester(core.Fair))
		b.replace(b.e, "release", cutOff, 2)
		b.release(h)
		b.release(b.wantGranted("the next one", waits))
		b.wantFree()
	})
}
