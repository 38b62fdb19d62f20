package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// The process sends nothing of its own any more, and its connections stay. Others wait for what it has released.
func TestAReleaseThatAServerLostSilentlyIsRepeatedWithinASecond(t *testing.T) {
	eachKind(t, func(b *bubble, want func() *requester) {
		memory := b.s.NewMemory(b.T)
		b.goesBack(want, memory.Lose)
		b.keep()
		c := b.call(b.engine(), b.rival(want()))
		b.wantWaiting("a call of another process", c)
		time.Sleep(transport.WatchPause + 10*time.Millisecond)
		b.release(b.wantGranted("a call of another process", c))
		b.wantFree()
	})
}

// As long as a release may be lost, the server is asked for its id once a second, and not after that.
func TestAServerIsAskedForItsIDOnlyWhileAReleaseMayBeLost(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.s.NewMemory(b.T)
		asked := func() (n int) {
			for _, c := range b.wire.Sent() {
				if c[0] == "info" {
					n++
				}
			}
			b.wire.Record()
			return n
		}
		b.wire.Record()
		b.release(b.requester(core.Exclusive).acquire(b.T, b.e))
		time.Sleep(2 * releaseLost)
		if n, most := asked(), int(releaseLost/transport.WatchPause)+1; n < most-1 || n > most {
			b.Errorf("asked %d times, want %d", n, most)
		}
		time.Sleep(time.Minute)
		if n := asked(); n > 0 {
			b.Errorf("asked %d times when no release could be lost", n)
		}
	})
}

func TestAServerThatReportsNoIDIsAskedOnce(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.wire.Record()
		for range 3 {
			b.release(b.requester(core.Exclusive).acquire(b.T, b.e))
			time.Sleep(2 * transport.WatchPause)
		}
		n := 0
		for _, c := range b.wire.Sent() {
			if c[0] == "info" {
				n++
			}
		}
		if n != 1 {
			b.Errorf("asked %d times", n)
		}
	})
}

// The old master answers as before, and keeps the subscription, because the Sentinels cannot tell it. No command fails, and no
// grant is missed.
func TestTheInboxFollowsAPlannedFailOver(t *testing.T) {
	suite.NeedsFull(t, "Sentinels take seconds to agree")
	t.Parallel()
	s := redistest.NewSentinel(t, 1, 3)
	one, other := newEngine(t, s.Client(t)), newEngine(t, s.Client(t))
	a := newRequester("item")
	a.Mode, a.Lease = core.Fair, 5*time.Minute
	h := a.acquire(t, one)
	waiter, done := newRequester("item"), make(chan error, 1)
	waiter.Mode = core.Fair
	go func() {
		next, err := other.Acquire(t.Context(), &waiter.Request)
		if err == nil {
			_, err = next.Release(soon)
		}
		done <- err
	}()
	<-waiter.contended
	s.AwaitReplicated(s.Master())
	old := s.Nodes[s.Master()]
	if err := old.NewClient(t).Do(t.Context(), "ACL", "SETUSER", "default", "-replicaof", "-slaveof").Err(); err != nil {
		t.Fatal(err)
	}
	master := s.Nodes[s.Failover()].NewClient(t)
	for begun := time.Now(); !hears(t, master, other); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("the inbox is not at the new master")
		}
	}
	if _, err := h.Release(soon); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
