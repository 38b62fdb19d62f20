package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A reader that joins a lease waits for its renewal, and the lease may last for a day.
func TestAReaderThatJoinsLearnsThatTheServerIsDown(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		requester := func() *requester {
			a := b.requester(core.Read)
			a.Lease = time.Hour
			return a
		}
		first := requester().acquire(b.T, b.e)
		time.Sleep(time.Second)
		b.wire.Cut()
		start, try := time.Now(), requester()
		try.Wait = 0
		_, err := b.e.Acquire(b.Context(), &try.Request)
		if took := time.Since(start); !errors.Is(err, core.ErrUnavailable) || took > 10*time.Second {
			b.Errorf("after %v: %v", took, err)
		}
		b.wire.Restore()
		b.release(first)
		time.Sleep(time.Minute)
		b.wantFree()
	})
}

// The last reader leaves while another one waits to join, and the server refuses that for good.
func TestALeaseThatNoReaderCouldJoinIsReleased(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		time.Sleep(shareFor)
		b.rdb.Rename(b.Context(), b.driver.Keys.Holder(), "saved")
		b.rdb.Set(b.Context(), b.driver.Keys.Holder(), "a stranger's", 0)
		held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		join := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("the one that joins", join)
		b.release(first)
		held.Deliver()
		<-join.done
		if !errors.Is(join.err, core.ErrWrongType) {
			b.Errorf("the one that joins got %v", join.err)
		}
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		b.rdb.Rename(b.Context(), "saved", b.driver.Keys.Holder())
		time.Sleep(2 * scripttest.Lease)
		b.wantFree()
	})
}

// The message that a writer waits comes before the answer that this process reads.
func TestAMessageThatOvertakesTheAnswerEndsTheSharing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		first := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("the first reader", first)
		writer := b.call(other, b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		held.Deliver()
		h := b.wantGranted("the first reader", first)
		late := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("the late reader", late)
		b.release(h)
		b.release(b.wantGranted("the writer", writer))
		b.release(b.wantGranted("the late reader", late))
		b.checkGone(other)
	})
}

// An answer is as old as its question.
func TestALateAnswerDoesNotAllowSharing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		first := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("the first reader", first)
		time.Sleep(shareFor)
		held.Deliver()
		h := b.wantGranted("the first reader", first)
		b.sent()
		second := b.read()
		if len(b.sent()) == 0 {
			b.Error("the second reader joined without a command")
		}
		b.release(h, second)
	})
}

// While the lock goes to another process a call joins: there is no link to its holder unless it learns
// of it.
func TestACallThatJoinsDuringAHandOverLearnsWhoGetsTheLock(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.requester(core.Exclusive).acquire(b.T, b.e)
		waits := b.call(b.e, b.requester(core.Exclusive))
		other := b.requester(core.Exclusive)
		other.Owner = "other"
		elsewhere := b.call(b.engine(), other)
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		b.release(first)
		<-held.Caught()
		theirs := b.wantGranted("the one in the other process", elsewhere)

		joins := b.call(b.e, b.requester(core.Exclusive))
		if len(joins.contended) > 0 {
			b.Errorf("it is notified of %v while nothing is known", <-joins.contended)
		}
		try := b.requester(core.Exclusive)
		try.Wait = 0
		if _, err := b.e.Acquire(b.Context(), &try.Request); !errors.Is(err, core.ErrBusy) {
			b.Errorf("one that does not wait: %v", err)
		}
		held.Deliver()
		b.wantWaiting("the one that joined", joins)
		if len(joins.contended) != 1 {
			b.Fatalf("it is notified %d times that it waits", len(joins.contended))
		}
		if w := <-joins.contended; len(w.Holders) != 1 || w.Holders[0].Owner != "other" || w.Holders[0].Token != theirs.Token() {
			b.Errorf("it waits for %+v, want the holder with token %d", w.Holders, theirs.Token())
		}
		b.release(theirs)
		b.release(b.wantGranted("the first to wait", waits))
		b.release(b.wantGranted("the one that joined", joins))
		b.wantFree()
	})
}
