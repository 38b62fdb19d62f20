package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// forgets replaces the bubble's server by one without data, whose clock is behind.
func (b *bubble) forgets(behind time.Duration) {
	b.Helper()
	if err := b.rdb.FlushAll(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	b.s.Mini.SetTime(time.Now().Add(-behind))
}

func TestTokensRiseThoughTheServersClockIsBehind(t *testing.T) {
	for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				h := b.requester(mode).acquire(b.T, b.e)
				before := h.Token()
				b.release(h)
				b.forgets(30 * time.Second)
				h = b.requester(mode).acquire(b.T, b.e)
				if h.Token() <= before {
					b.Errorf("token %d after %d", h.Token(), before)
				}
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// A key that is new to this process has the same counter.
func TestTokensOfAnotherKeyRise(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		before := h.Token()
		b.release(h)
		b.forgets(30 * time.Second)
		other := b.requester(core.Exclusive)
		other.Key, other.Wait = "another", 0
		h = other.acquire(b.T, b.e)
		if h.Token() <= before {
			b.Errorf("token %d after %d", h.Token(), before)
		}
		b.release(h)
	})
}

func TestAWaiterGetsAGreaterTokenThanTheOneBefore(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		h := b.requester(core.Fair).acquire(b.T, b.e)
		c := b.call(b.e, b.requester(core.Fair))
		b.forgets(30 * time.Second)
		time.Sleep(time.Minute) // until the lease has expired
		next := b.wantGranted("the waiter", c)
		if next.Token() <= h.Token() {
			b.Errorf("token %d after %d", next.Token(), h.Token())
		}
		b.release(next)
	})
}

// A call that has waited since before the greater token was granted also counts that token, because it is for the same key.
func TestAWaiterOfLongAgoGetsAGreaterTokenThanTheOneBefore(t *testing.T) {
	for _, modes := range [][2]core.Mode{
		{core.Fair, core.Fair}, {core.Write, core.Write}, {core.Exclusive, core.Fair}, {core.Fair, core.Exclusive},
	} {
		t.Run(fmt.Sprint(modes), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				first := b.requester(core.Fair).acquire(b.T, b.e)
				second, third := b.call(b.e, b.requester(modes[0])), b.call(b.e, b.requester(modes[1]))
				time.Sleep(20 * time.Second)
				b.release(first)
				h := b.wantGranted("the second", second)
				b.rdb.Del(b.Context(), b.driver.Keys.Fence())
				b.s.Mini.SetTime(time.Now().Add(-10 * time.Second))
				b.release(h)
				next := b.wantGranted("the third", third)
				if next.Token() <= h.Token() {
					b.Errorf("%v: token %d after %d", modes, next.Token(), h.Token())
				}
				b.release(next)
				b.wantFree()
			})
		})
	}
}

func TestAClockThatIsFarBehindIsNamed(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.release(b.requester(core.Exclusive).acquire(b.T, b.e))
		b.forgets(10 * time.Minute)
		c := b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(time.Second)
		if !c.returned() || !errors.Is(c.err, core.ErrUnavailable) || !strings.Contains(c.err.Error(), "its clock is 10m0s behind") {
			b.Errorf("%v", c.err)
		}
		c.stop()
		time.Sleep(time.Second)
		b.wantFree()
	})
}

// Readers share the token of their phase, which may be older than others.
func TestReadersMayHaveAnOlderToken(t *testing.T) {
	inBubble(t, func(b *bubble) {
		other := b.engine()
		first := b.requester(core.Read).acquire(b.T, other)
		another := b.requester(core.Exclusive)
		another.Key = "another"
		b.release(another.acquire(b.T, b.e))
		h := b.read()
		if h.Token() != first.Token() {
			b.Errorf("token %d next to %d", h.Token(), first.Token())
		}
		b.release(h, first)
	})
}

// whileRaising makes a call wait for the answer to the command that raises the counter.
func (b *bubble) whileRaising() (c *calling, deliver func()) {
	b.Helper()
	b.release(b.requester(core.Exclusive).acquire(b.T, b.e))
	b.forgets(30 * time.Second)
	held := b.wire.HoldReply(b.e.scripts.All()["raise"].Source)
	c = b.call(b.e, b.requester(core.Exclusive))
	<-held.Caught()
	b.sent()
	return c, held.Deliver
}

func TestACallThatEndsWhileTheCounterIsRaisedLeavesNothing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c, deliver := b.whileRaising()
		c.stop()
		synctest.Wait()
		if !c.returned() {
			b.Error("it has not returned")
		}
		deliver()
		synctest.Wait()
		b.wantFree()
	})
}

func TestCallsThatComeWhileTheCounterIsRaisedWaitForThat(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c, deliver := b.whileRaising()
		other := b.call(b.e, b.requester(core.Exclusive))
		if n := b.sent()["acquire"]; n > 0 {
			b.Errorf("%d requests were sent", n)
		}
		deliver()
		b.release(b.wantGranted("the first", c))
		b.release(b.wantGranted("the second", other))
		b.wantFree()
	})
}

// A counter that stays behind ends the calls, and does not keep the server busy forever.
func TestACounterThatCannotBeRaisedEndsTheCall(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Exclusive).acquire(b.T, b.e)
		b.release(h)
		b.e.onlySlot.greatest.Store(h.Token() + (30 * time.Second).Microseconds())
		b.loseCounter()
		c := b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(time.Second)
		if !c.returned() || !errors.Is(c.err, core.ErrUnavailable) || !strings.Contains(c.err.Error(), "do not rise") {
			b.Errorf("%v", c.err)
		}
		c.stop()
		time.Sleep(time.Second)
		b.wantFree()
	})
}
