package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// peekedAt is how long it takes until a peek has been answered, and what follows from it has happened.
const peekedAt = script.PollInterval + 10*time.Millisecond

// waitsBehind has the driver hold the lock, and a call wait for it in that mode.
func (b *bubble) waitsBehind(mode core.Mode) *calling {
	b.Helper()
	b.warm()
	b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write, Lease: time.Hour})
	c := b.call(b.e, b.requester(mode))
	b.wantWaiting("the call", c)
	time.Sleep(peekedAt)
	b.sent()
	return c
}

// end stops calls, and frees the lock.
func (b *bubble) end(all ...*calling) {
	b.Helper()
	for _, c := range all {
		c.stop()
		<-c.done
	}
	synctest.Wait()
	b.rdb.Del(b.Context(), b.driver.Keys.Holder())
	b.wantFree()
}

func TestNothingNewCostsPeeksOnly(t *testing.T) {
	for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write, core.Read} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				c := b.waitsBehind(mode)
				const rounds = 20
				time.Sleep(rounds * script.PollInterval)
				if sent := b.sent(); sent["poll"] != 0 || sent["peek"] < rounds-3 || sent["peek"] > rounds+3 {
					b.Errorf("in %d rounds: %v", rounds, sent)
				}
				b.end(c)
			})
		})
	}
}

// Without polls the queue would be gone after a while.
func TestAQueueIsKeptInWhichNothingHappens(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		for range 8 {
			time.Sleep(script.QueueTTL / 4)
			if left := b.rdb.PTTL(b.Context(), b.driver.Keys.Queue()).Val(); left < script.QueueTTL/2 {
				b.Fatalf("%v are left of the queue", left)
			}
		}
		if sent := b.sent(); sent["poll"] < 4 || sent["poll"] > 8 {
			b.Errorf("in %v: %v", 2*script.QueueTTL, sent)
		}
		b.end(c)
	})
}

func TestAPeekFindsChanges(t *testing.T) {
	holder := func(b *bubble, field string, value any) {
		b.rdb.HSet(b.Context(), b.driver.Keys.Holder(), field, value)
	}
	for _, test := range []struct {
		name  string
		mode  core.Mode
		begin func(b *bubble) // before the call waits
		news  func(b *bubble)
	}{
		{name: "one in front has left", mode: core.Fair, begin: func(b *bubble) {
			b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write, Lease: time.Hour})
			b.driver.Fair("first")
		}, news: func(b *bubble) { b.driver.Cancel("first") }},
		{name: "another one holds it", mode: core.Fair, news: func(b *bubble) { holder(b, "token", b.driver.Token()+1) }},
		{name: "it was unlocked early", mode: core.Fair, news: func(b *bubble) { holder(b, "id", "-") }},
		{name: "the counter is another one", mode: core.Fair, news: func(b *bubble) {
			b.rdb.Set(b.Context(), b.driver.Keys.Fence(), "none of ours", 0)
		}},
		{name: "readers have taken over", mode: core.Write, news: func(b *bubble) {
			b.driver.Downgrade("held") // the token stays, and so does the place in the queue
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				if test.begin != nil {
					test.begin(b)
				}
				c := b.waitsBehind(test.mode)
				test.news(b)
				time.Sleep(peekedAt)
				if sent := b.sent(); sent["poll"] == 0 {
					b.Errorf("%v", sent)
				}
				b.rdb.Del(b.Context(), b.driver.Keys.Fence())
				b.end(c)
			})
		})
	}
}

// It polls once, and not for as long as they read.
func TestAWriterBehindReadersPeeks(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Write)
		b.driver.Downgrade("held")
		time.Sleep(2 * peekedAt)
		b.sent()
		time.Sleep(10 * script.PollInterval)
		if sent := b.sent(); sent["poll"] != 0 || sent["peek"] == 0 {
			b.Errorf("%v", sent)
		}
		b.end(c)
	})
}

func TestAPeekLeadsToTheGrant(t *testing.T) {
	for _, test := range []struct {
		name string
		news func(b *bubble) // of which no message tells
	}{
		{"the lock was deleted", func(b *bubble) { b.rdb.Del(b.Context(), b.driver.Keys.Holder()) }},
		{"all was deleted", func(b *bubble) { b.rdb.FlushAll(b.Context()) }},
		{"a message was lost", func(b *bubble) {
			if err := b.e.inboxes.Deafen(b.inbox()); err != nil {
				b.Fatal(err)
			}
			b.driver.Release("held")
		}},
		{"its lease ends early", func(b *bubble) { b.rdb.PExpire(b.Context(), b.driver.Keys.Holder(), 100*time.Millisecond) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				c := b.waitsBehind(core.Fair)
				test.news(b)
				time.Sleep(peekedAt)
				b.release(b.wantGranted("the call", c))
				b.wantFree()
			})
		})
	}
}

// A push counts for as long as peeks are answered, though no poll is.
func TestPeeksMakePushesReliable(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		time.Sleep(5 * script.AcceptWindow)
		b.sent()
		b.driver.Release("held")
		h := b.wantGranted("the call", c)
		b.wantSent("a call that a message has reached")
		b.release(h)
		b.wantFree()
	})
}

// A message that is not newer than a peek tells of a hold that has ended.
func TestAPushThatIsOlderThanAPeekDoesNotStartAHold(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Write)
		r := b.e.ids.requests()[0]
		old := r.stamp + 1
		b.rdb.Set(b.Context(), b.driver.Keys.Fence(), old, 0)
		time.Sleep(peekedAt)
		b.rdb.Publish(b.Context(), b.inbox().Name, b.e.prove(fmt.Sprintf("grant %s %d %d 1 0 %s", r.id, old, old, b.driver.Keys.Holder())))
		b.wantWaiting("one with a message of a grant that has ended", c)
		b.end(c)
	})
}

// The answer to a peek may be older than what a message has said since.
func TestAPeekFromBeforeALockWasTakenAwayMakesNoPushReliable(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		reply := b.wire.HoldReply(b.scripts()["peek"].SHA)
		time.Sleep(peekedAt)
		poll := b.wire.HoldReply(b.scripts()["poll"].SHA) // that follows, and says more
		r := b.e.ids.requests()[0]
		r.onTakenAway()
		reply.Deliver()
		synctest.Wait()
		r.c.shard.mu.Lock()
		reliable := r.acceptBy > clock.Now()
		r.c.shard.mu.Unlock()
		if reliable {
			b.Error("it relies on a push")
		}
		poll.Deliver()
		b.end(c)
	})
}

// An Inspector sees how many calls share a ticket, even if nothing else is new.
func TestAPollReportsThatMoreCallsWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Exclusive)
		another := b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(peekedAt)
		if got := b.waiting(); got != "0 [2]" {
			b.Errorf("an operator sees %s", got)
		}
		b.end(c, another)
	})
}

// A server that refuses writes may serve peeks: a poll says what is wrong.
func TestARefusedBeatLeadsToPolls(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		b.rdb.Set(b.Context(), b.driver.Keys.Alive(), "none of ours", 0)
		time.Sleep(2 * script.BeatInterval)
		b.sent()
		time.Sleep(script.BeatInterval + script.PollInterval)
		if sent := b.sent(); sent["poll"] == 0 {
			b.Errorf("%v", sent)
		}
		b.rdb.Del(b.Context(), b.driver.Keys.Alive())
		b.end(c)
	})
}

// A reader behind a writer that has died, while others read, is served when the writer is taken for dead.
func TestACallBehindADeadTicketIsServed(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin func(b *bubble) *calling
	}{
		{"a reader", func(b *bubble) *calling {
			b.warm()
			b.driver.Acquire(scripttest.Acquire{ID: "reads", Mode: core.Read, Lease: time.Hour})
			b.driver.Write("dead")
			return b.call(b.e, b.requester(core.Read))
		}},
		{"a permit", func(b *bubble) *calling {
			b.warmPermits()
			b.driver.AcquirePermit(scripttest.Permit{ID: "held", N: 2, Lease: time.Hour})
			b.driver.AcquirePermit(scripttest.Permit{ID: "dead", N: 2, Weight: 2})
			return b.call(b.e, b.permit(2))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				c := test.begin(b)
				b.wantWaiting("the call", c)
				time.Sleep(2 * peekedAt)
				b.driver.Kill("dead")
				time.Sleep(peekedAt)
				b.release(b.wantGranted("the call", c))
				b.rdb.FlushAll(b.Context())
			})
		})
	}
}

// Tickets of many keys share an execution where scripts may use the keys of different locks.
func TestPeeksOfManyKeysGoOutTogether(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.e.sender.SetBatching(true)
		other := b.engine()
		var holds []*hold
		var calls []*calling
		for i := range 50 {
			for _, e := range []*Engine{other, b.e} {
				a := b.requester(core.Fair)
				a.Key = fmt.Sprint("many:", i)
				a.Lease = time.Hour
				if c := b.call(e, a); e == b.e {
					calls = append(calls, c)
				} else {
					holds = append(holds, b.wantGranted("a holder", c))
				}
			}
		}
		time.Sleep(2 * peekedAt)
		b.sent()
		const rounds = 10
		time.Sleep(rounds * script.PollInterval)
		if sent := b.sent(); sent["peek"] < rounds-2 || sent["peek"] > 2*rounds || sent["poll"] != 0 {
			b.Errorf("in %d rounds for %d keys: %v", rounds, len(calls), sent)
		}
		for i, c := range calls {
			b.release(holds[i])
			b.release(b.wantGranted("a waiter", c))
		}
		b.checkGone(other)
	})
}

// A reader polls while others read, and no longer.
func TestAReaderBehindAWriterPeeksAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Acquire(scripttest.Acquire{ID: "reads", Mode: core.Read, Lease: time.Hour})
		b.driver.Acquire(scripttest.Acquire{ID: "writes", Mode: core.Write, Lease: time.Hour})
		c := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("the call", c)
		rounds := func(n int) { // in which the writer's process lives
			for range n {
				b.driver.Beat("writes", false)
				time.Sleep(script.PollInterval)
			}
		}
		rounds(3)
		b.sent()
		rounds(4)
		if sent := b.sent(); sent["poll"] < 3 {
			b.Errorf("behind readers: %v", sent)
		}
		b.driver.Release("reads")
		b.driver.Renew("writes", time.Hour)
		rounds(3)
		b.sent()
		rounds(4)
		if sent := b.sent(); sent["poll"] != 0 || sent["peek"] < 3 {
			b.Errorf("behind a writer: %v", sent)
		}
		b.rdb.FlushAll(b.Context())
		time.Sleep(peekedAt)
		b.release(b.wantGranted("the call", c))
	})
}

// A poll does not wait for the turn of a peek.
func TestAPollOvertakesAPeek(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		r := b.e.ids.requests()[0]
		r.c.shard.mu.Lock()
		r.asking = peekIt // one waits for its turn
		r.pollNow()
		r.c.shard.mu.Unlock()
		b.wantSent("a request whose peek waits", "poll")
		r.c.shard.mu.Lock()
		due := r.begin(peekIt)
		r.c.shard.mu.Unlock()
		if due {
			b.Error("it is peeked at, though a poll was sent")
		}
		b.end(c)
	})
}
