package engine

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A poll's answer is news as well: what was published before it is not relied on any more.
func TestAPushThatIsOlderThanAPollDoesNotStartAHold(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.desk.asks(ask{id: "held", mode: core.Write})
		waits := b.call(b.e, b.asker(core.Write))
		b.wantWaiting("one", waits)
		r := b.e.ids.requests()[0]
		old := r.stamp + 1
		time.Sleep(time.Millisecond)
		b.desk.rdb.Set(b.Context(), b.desk.name.fence.(string), old, 0) // as of a hold that is over
		time.Sleep(pollInterval)
		b.rdb.Publish(b.Context(), b.e.inbox.channel, fmt.Sprintf("grant %s %d %d 1 0 %s", r.id, old, old, b.desk.name.holder))
		b.wantWaiting("one that was told of a grant which is over", waits)
		b.desk.release("held", 0)
		b.release(b.wantGranted("one", waits))
		b.wantFree()
	})
}

// Whoever has it does not come back: nobody waits for the next poll then.
func TestALockIsAskedForWhenItsHolderIsOver(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		const lease = pollInterval / 4
		b.desk.asks(ask{id: "held", mode: core.Write, lease: lease})
		start := time.Now()
		waits := b.call(b.e, b.asker(core.Read))
		<-waits.done
		if took := time.Since(start); took < lease || took > lease+10*time.Millisecond {
			b.Errorf("it has the lock after %v, want %v", took, lease)
		}
		b.release(b.wantGranted("it", waits))
		b.wantFree()
	})
}

func TestAPollThatIsRefusedEndsTheWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.desk.asks(ask{id: "held", mode: core.Write})
		waits := b.call(b.e, b.asker(core.Read))
		b.wantWaiting("one", waits)
		b.rdb.Set(b.Context(), b.desk.name.holder, "somebody else's", 0)
		time.Sleep(pollInterval)
		if synctest.Wait(); !waits.returned() || !errors.Is(waits.err, core.ErrWrongType) {
			b.Errorf("returned %t, %v", waits.returned(), waits.err)
		}
		b.rdb.Del(b.Context(), b.desk.name.holder)
		b.wantFree()
	})
}

// Without the message it is the poll that sets the lease.
func TestAPollThatGrantsSetsTheLease(t *testing.T) {
	for name, mode := range map[string]core.Mode{"to write": core.Write, "to read": core.Read} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				b.desk.asks(ask{id: "held", mode: core.Write})
				deliver := b.quiet()
				waits := b.call(b.e, b.asker(mode))
				b.wantWaiting("one", waits)
				b.desk.release("held", 0)
				b.wantWaiting("one that was not told", waits)
				time.Sleep(pollInterval)
				g := b.wantGranted("one", waits)
				server := b.rdb.PTTL(b.Context(), b.desk.name.holder).Val()
				if mode == core.Read {
					server = b.desk.ends(g.lease.id.String()).Sub(b.desk.look().now)
				}
				if left := time.Until(g.Deadline()); left < askedLease/2 || left > server {
					b.Errorf("it takes itself to hold for %v, and does for %v", left, server)
				}
				deliver()
				b.release(g)
				b.wantFree()
			})
		})
	}
}

// One that gets lost is followed by another.
func TestAPollThatIsNotAnsweredIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.desk.asks(ask{id: "held", mode: core.Write})
		deliver := b.quiet()
		waits := b.call(b.e, b.asker(core.Read))
		b.wantWaiting("one", waits)
		b.desk.release("held", 0)
		b.wire.Withhold(b.e.scripts.poll.sha)
		time.Sleep(pollInterval)
		b.wantWaiting("one whose poll got lost", waits)
		time.Sleep(pollInterval)
		g := b.wantGranted("one", waits)
		deliver()
		b.release(g)
		b.wantFree()
	})
}
