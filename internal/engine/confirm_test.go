package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// waitsInDoubt is waitsBehind for a call that relies on no push.
func (b *bubble) waitsInDoubt(mode core.Mode) *calling {
	b.Helper()
	c := b.waitsBehind(mode)
	r := b.e.ids.requests()[0]
	r.c.shard.mu.Lock()
	r.acceptBy = 0
	r.c.shard.mu.Unlock()
	return c
}

// A push that came too late to be relied on is confirmed without a write, and the hold lasts no longer than the server has it.
func TestAPeekConfirmsAPush(t *testing.T) {
	for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				c := b.waitsInDoubt(mode)
				b.driver.Release("held")
				h := b.wantGranted("the call", c)
				b.wantSent("a push that is not relied on", "peek")
				if left, has := clock.Until(h.Deadline()), b.rdb.PTTL(b.Context(), b.driver.Keys.Holder()).Val(); left >= has || left < has-100*time.Millisecond {
					b.Errorf("it has the lock for %v, and the server for %v", left, has)
				}
				time.Sleep(2 * script.AcceptWindow)
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// A peek does not tell what one of several holders has: a poll follows without one.
func TestAPushThatTellsAReaderIsPolledFor(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsInDoubt(core.Read)
		b.driver.Release("held")
		h := b.wantGranted("the call", c)
		b.wantSent("a push that is not relied on", "poll")
		b.release(h)
		b.wantFree()
	})
}

// A peek confirms only the grant that the push tells of, and only if enough is left of it to renew it.
func TestAPushThatAPeekDoesNotConfirmLeadsToAPoll(t *testing.T) {
	for _, test := range []struct {
		name string
		then func(b *bubble)
	}{
		{"the id was granted again, with another token", func(b *bubble) {
			b.rdb.HIncrBy(b.Context(), b.driver.Keys.Holder(), "token", 1)
			b.rdb.Incr(b.Context(), b.driver.Keys.Fence())
		}},
		{"little is left of it", func(b *bubble) {
			b.rdb.PExpire(b.Context(), b.driver.Keys.Holder(), leastConfirmed-time.Millisecond)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				c := b.waitsInDoubt(core.Fair)
				peek := b.wire.Withhold(b.scripts()["peek"].SHA)
				b.driver.Release("held")
				<-peek.Caught()
				test.then(b)
				peek.Break() // go-redis sends it again
				<-c.done
				h := b.wantGranted("the call", c)
				if sent := b.sent(); sent["poll"] != 1 {
					b.Errorf("%v", sent)
				}
				if token := b.driver.Token(); h.lease.first != token {
					b.Errorf("it has the token %d, and the server %d", h.lease.first, token)
				}
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// Replicas have to have what a hold relies on, and a peek does not wait for them.
func TestAPeekConfirmsNothingForReplicas(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		r := b.e.ids.requests()[0]
		r.c.shard.mu.Lock()
		r.push = &script.Message{Grant: script.Grant{Token: 7}}
		seen := &script.PeekedState{Granted: true, Token: 7, TTL: script.AcceptWindow}
		alone := r.confirms(clock.Now(), seen)
		b.e.cfg.Replicas.Count = 1
		replicated := r.confirms(clock.Now(), seen)
		b.e.cfg.Replicas.Count, r.push = 0, nil
		r.c.shard.mu.Unlock()
		if !alone || replicated {
			b.Errorf("without replicas %t, with replicas %t", alone, replicated)
		}
		b.end(c)
	})
}

// Where many keys are waited for, a peek waits long for its turn.
func TestTheEndOfAHolderIsFoundThoughAPeekWaits(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		t.Run(fmt.Sprintf("renewed %t", renewed), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				const lease = 10 * script.PollInterval
				b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write, Lease: lease})
				start := time.Now()
				c := b.call(b.e, b.requester(core.Fair))
				b.wantWaiting("the call", c)
				r := b.e.ids.requests()[0]
				r.c.shard.mu.Lock()
				r.asking = peekIt
				r.c.shard.mu.Unlock()
				b.sent()
				time.Sleep(lease - script.PollInterval)
				if sent := b.sent(); sent["peek"]+sent["poll"] != 0 {
					b.Errorf("a peek waits for its turn, and %v", sent)
				}
				if renewed {
					b.driver.Renew("held", lease)
					time.Sleep(script.PollInterval + 10*time.Millisecond)
					if sent := b.sent(); sent["peek"] != 1 || sent["poll"] != 0 {
						b.Errorf("the holder has been renewed: %v", sent)
					}
					b.end(c)
					return
				}
				<-c.done
				if took := time.Since(start); took > lease+10*time.Millisecond {
					b.Errorf("it has the lock after %v", took)
				}
				b.release(b.wantGranted("the call", c))
				b.wantFree()
			})
		})
	}
}

// A peek tells when the holder may be gone.
func TestALeaseThatNowEndsEarlierIsFoundImmediately(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.waitsBehind(core.Fair)
		const left = script.PollInterval + script.PollInterval/3
		b.rdb.PExpire(b.Context(), b.driver.Keys.Holder(), left)
		start := time.Now()
		<-c.done
		if took := time.Since(start); took > left+10*time.Millisecond {
			b.Errorf("it has the lock after %v, and the lease ended after %v", took, left)
		}
		b.release(b.wantGranted("the call", c))
		b.wantFree()
	})
}
