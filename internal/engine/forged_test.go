package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// A message says that an operator took the lock away. Whether he did, only the server can say.
func TestALossIsBelievedOnlyOnceTheServerConfirmsIt(t *testing.T) {
	for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Write, core.Read} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				a := b.requester(mode)
				h := a.acquire(b.T, b.e)
				b.sent()
				b.forge("lost " + h.lease.id.String())
				b.wantSent("after a forged message", "renew")
				time.Sleep(script.PollInterval)
				if len(a.lost) > 0 || h.Expired() {
					b.Errorf("%v: a forged message has ended the hold: %v", mode, h.Lost)
				}
				b.driver.Want("force", b.driver.Force(h.Token(), "owner"), script.Done)
				synctest.Wait()
				if len(a.lost) != 1 {
					b.Fatalf("%v: the hold is not lost", mode)
				}
				if cause := <-a.lost; cause != errTakenAway {
					b.Errorf("%v: it is lost because %v", mode, cause)
				}
			})
		})
	}
}

// A hold that is deleted later was not taken away by an operator.
func TestAForgedLossIsForgottenWithTheNextRenewal(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		a := b.requester(core.Exclusive)
		h := a.acquire(b.T, b.e)
		b.forge("lost " + h.lease.id.String())
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		time.Sleep(h.Req.Lease / 2)
		if cause := <-a.lost; cause != errDeleted {
			b.Errorf("it is lost because %v", cause)
		}
	})
}

// The message of a grant that was taken away may be repeated before the answer to its acquire comes.
func TestARevokedGrantIsNotRevivedByACopyOfItsMessage(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Write("held")
		acquired := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		waits := b.call(b.e, b.requester(core.Write))
		heard := b.hear()
		b.driver.Release("held")
		grant := heard()[0]
		b.driver.Want("force", b.driver.Force(b.driver.Token(), "owner"), script.Done)
		b.driver.Write("next")
		b.forge(grant)
		acquired.Deliver()
		b.forge(grant)
		b.wantWaiting("a call whose grant was revoked", waits)
		b.driver.Release("next")
		b.release(b.wantGranted("the same", waits))
		b.wantFree()
	})
}

// forge publishes messages to the engine, as anybody may.
func (b *bubble) forge(texts ...string) {
	b.Helper()
	time.Sleep(time.Millisecond)
	for _, text := range texts {
		b.rdb.Publish(b.Context(), b.inbox().Name, text)
	}
	synctest.Wait()
}

// hear subscribes to all inboxes. The function that it returns returns the messages since its last call.
func (b *bubble) hear() (heard func() []string) {
	sub := b.rdb.PSubscribe(b.Context(), "lockmw:inbox:*")
	b.Cleanup(func() { _ = sub.Close() })
	messages := sub.Channel(redis.WithChannelSize(1<<16), redis.WithChannelHealthCheckInterval(0))
	synctest.Wait()
	return func() (all []string) {
		for synctest.Wait(); len(messages) > 0; {
			all = append(all, (<-messages).Payload)
		}
		return all
	}
}

// A flood of messages of each kind, including repeated ones, leads to few commands.
func TestAFloodOfMessagesIsNoFloodOfCommands(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		heard := b.hear()
		b.driver.Write("held")
		waits := b.call(b.e, b.requester(core.Write))
		b.driver.Release("held")
		grant := heard()[0]
		h := b.wantGranted("one", waits)
		ended := h.lease.id.String()
		b.release(h)

		a := b.requester(core.Exclusive)
		h = a.acquire(b.T, b.e)
		other := newRequester("item:2")
		b.rdb.HSet(b.Context(), "lockmw:{item:2}", "id", "x", "inbox", "x", "owner", "x", "token", 1)
		b.rdb.PExpire(b.Context(), "lockmw:{item:2}", time.Minute)
		waits = b.call(b.e, other)
		b.wantWaiting("another", waits)
		waiter := b.e.ids.requests()[0].id.String()
		far := " 9007199254740000 9007199254740000 1 0 lockmw:{item:2}"
		for name, text := range map[string]string{
			"a grant without a proof":          "grant " + waiter + far,
			"a grant with another proof":       "grant " + waiter + far + " " + strings.Repeat("0", 40),
			"a grant of a hold":                b.e.prove("grant " + h.lease.id.String() + strings.ReplaceAll(far, "item:2", bubbleKey)),
			"a grant of an id that is unknown": "grant " + b.e.idStem.New(1000).String() + far + " " + strings.Repeat("0", 40),
			"a grant that was heard":           grant,
			"a grant with another key":         strings.Replace(grant, bubbleKey, "item:2", 1),
			"a permit":                         "permit " + waiter + " 9007199254740000 0 0 lockmw:{item:2} " + strings.Repeat("0", 40),
			"a loss of a hold":                 "lost " + h.lease.id.String(),
			"a loss of a wait":                 "lost " + waiter,
			"contention of a hold":             "contended " + h.lease.id.String(),
			"contention of a wait":             "contended " + waiter,
			"a deadlock":                       `deadlock {"x":"y"}`,
			"a question":                       `deadlock {"n":1,"f":"lockmw:inbox:x","q":{"l":["` + h.lease.id.String() + `"]}}`,
		} {
			time.Sleep(2 * time.Second)
			b.sent()
			for range 50 {
				b.forge(slices.Repeat([]string{text}, 20)...)
			}
			n := 0
			for _, of := range b.sent() {
				n += of
			}
			if most := 4; n > most && name != "a grant that was heard" || n > maxUnwanted+most { // and what is due meanwhile, such as a beat
				b.Errorf("%s, a thousand times, leads to %d commands, of %s", name, n, ended)
			}
		}
		if len(a.lost) > 0 || h.Expired() {
			b.Error("the hold is lost")
		}
		b.release(h)
		b.wantWaiting("another", waits)
		b.rdb.Del(b.Context(), "lockmw:{item:2}")
		time.Sleep(script.PollInterval)
		b.release(b.wantGranted("another", waits))
	})
}

// A forger repeats messages that it has received, changes them, and makes up others.
type forger struct {
	*rand.Rand
	b     *bubble
	hear  func() []string
	heard []string // so far
	to    []string // inboxes
}

// text makes up a message.
func (f *forger) text() string {
	f.heard = append(f.heard, f.hear()...)
	holder := f.b.driver.Keys.Holder()
	switch f.IntN(8) {
	case 0:
		return "lost " + f.id()
	case 1:
		return "contended " + f.id()
	case 2:
		ids := f.id()
		for f.IntN(2) == 0 {
			ids += "," + f.id()
		}
		number := time.Now().UnixMicro() + f.Int64N(1<<f.IntN(50))
		text := fmt.Sprintf("grant %s %d %d %d %d %s", ids, number, number, 1+f.IntN(40), f.IntN(3), holder)
		return scripttest.Prove(text, scripttest.Secret(strconv.Itoa(f.Int()))) // a guess
	case 3:
		return f.heardOne() + strings.Repeat("x", f.IntN(1<<f.IntN(18)))
	case 4:
		text := []byte(f.heardOne())
		if len(text) > 0 {
			text[f.IntN(len(text))] ^= 1 << f.IntN(8)
		}
		return string(text)
	case 5:
		one, other := strings.Fields(f.heardOne()), strings.Fields(f.heardOne())
		if at := 1 + f.IntN(7); at < len(one) && at < len(other) {
			one[at] = other[at]
		}
		return strings.Join(one, " ")
	}
	return f.heardOne()
}

func (f *forger) heardOne() string {
	if len(f.heard) == 0 {
		return "grant"
	}
	return f.heard[f.IntN(len(f.heard))]
}

// id guesses one of the last ids.
func (f *forger) id() string {
	e := f.b.e
	return e.idStem.New(max(e.lastID.Load()+2, 8) - f.Uint64N(8)).String()
}

// Whatever is published, a hold is one that the server has, and everything is as usual soon after the last message.
func TestNoPublishedMessageMakesAHold(t *testing.T) {
	seeds := uint64(12)
	if !suite.Full() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { liveWithForger(t, seed) })
	}
}

func FuzzForger(f *testing.F) {
	f.Add(uint64(100))
	f.Fuzz(liveWithForger)
}

func liveWithForger(t *testing.T, seed uint64) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		f := &forger{Rand: rand.New(rand.NewPCG(seed, 1)), b: b, hear: b.hear()}
		f.to = []string{b.inbox().Name, other.inbox.Name}
		modes := []core.Mode{core.Exclusive, core.Fair, core.Fair, core.Write, core.Read}
		calls := make([]*calling, 6)
		held := make([]bool, len(calls))
		look := func() {
			synctest.Wait()
			for i, c := range calls {
				if c == nil || held[i] || !c.returned() {
					continue
				}
				if c.err != nil {
					b.Fatalf("a call fails: %v", c.err)
				}
				held[i] = true
				id := c.grant.lease.id.String()
				if got := b.driver.Look(); got.HolderID() != id && got.Readers()[id] == (scripttest.Reader{}) {
					b.Fatalf("a call holds by %s, and the server has %v", id, got)
				}
				if ahead := c.grant.Token() - time.Now().UnixMicro(); ahead > int64(time.Second/time.Microsecond) {
					b.Fatalf("a call has token %d, which is %d us ahead", c.grant.Token(), ahead)
				}
			}
		}
		for range 150 {
			i := f.IntN(len(calls))
			switch c := calls[i]; {
			case f.IntN(3) > 0:
				b.rdb.Publish(b.Context(), f.to[f.IntN(2)], f.text())
			case c == nil:
				calls[i] = b.call([]*Engine{b.e, other}[i%2], b.requester(modes[f.IntN(len(modes))]))
			case held[i]:
				if len(c.lost) > 0 {
					b.Fatalf("a hold is lost: %v", <-c.lost)
				}
				b.release(c.grant)
				calls[i], held[i] = nil, false
			}
			look()
			if f.IntN(4) == 0 {
				time.Sleep(time.Duration(f.IntN(1500)) * time.Millisecond)
				look()
			}
		}
		for anyLeft := true; anyLeft; {
			anyLeft = false
			time.Sleep(script.PollInterval)
			look()
			for i, c := range calls {
				if c == nil {
					continue
				}
				anyLeft = true
				if held[i] {
					b.release(c.grant)
					calls[i], held[i] = nil, false
				}
			}
		}
		for _, e := range []*Engine{b.e, other} {
			b.release(b.requester(core.Exclusive).acquire(b.T, e))
		}
		b.checkGone(other)
	})
}
