package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// unheld has a lease without a hold: it is kept for one that joins, until the answer is delivered. Meanwhile a writer of
// another process waits.
func (b *bubble) unheld() (join, writer *calling, deliver func()) {
	b.Helper()
	first, join, deliver := b.asking()
	b.release(first)
	time.Sleep(time.Millisecond)
	writer = b.call(b.engine(), b.requester(core.Write))
	b.wantWaiting("the writer", writer)
	return join, writer, deliver
}

// A separate release would leave the lock taken for as long as the release takes, although no caller holds it.
func TestALeaseWithoutHoldsEndsWithTheRequestThatReplacesIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		join, writer, deliver := b.unheld()
		b.sent()
		deliver()
		h := b.wantGranted("the writer", writer)
		b.wantWaiting("the join", join)
		b.wantSent("the end of the sharing", "acquire")
		b.release(h)
		b.release(b.wantGranted("the join", join))
		b.wantFree()
	})
}

// The lock may be free for readers when the answer arrives: only the server can tell.
func TestATryDuringTheRequestThatReplacesASharedLeaseWaitsForTheAnswer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		join, writer, deliver := b.unheld()
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		deliver()
		<-held.Caught()
		try := b.requester(core.Read)
		try.Wait = 0
		c := b.call(b.e, try)
		b.wantWaiting("a try before the answer", c)
		held.Deliver()
		<-c.done
		if !errors.Is(c.err, core.ErrBusy) {
			b.Errorf("the try: %v, want ErrBusy, as a writer has the lock", c.err)
		}
		b.release(b.wantGranted("the writer", writer))
		b.release(b.wantGranted("the join", join))
		b.wantFree()
	})
}

// A lease that was kept for a join has no hold when the join is refused.
func TestShutdownReleasesALeaseThatWasKeptForAJoin(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, join, deliver := b.asking()
		b.release(first)
		if err := b.e.Shutdown(b.Context()); err != nil {
			b.Error(err)
		}
		if synctest.Wait(); !join.returned() || !errors.Is(join.err, core.ErrClosed) {
			b.Errorf("the join: returned %t, %v", join.returned(), join.err)
		}
		b.wantFree()
		deliver()
		b.wantFree()
	})
}
