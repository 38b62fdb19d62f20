package redlock_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// farAhead is more than a token may be ahead of other nodes' tokens.
const farAhead = time.Hour

// setCounter sets the counter of a node, and returns its value.
func (b *bubble) setCounter(node int, ahead time.Duration) int64 {
	b.Helper()
	token := time.Now().Add(ahead).UnixMicro()
	if err := b.node(node).Mini.Set("lockmw:fence", strconv.FormatInt(token, 10)); err != nil {
		b.Fatal(err)
	}
	return token
}

// counter returns the last token of a node.
func (b *bubble) counter(node int) int64 {
	b.Helper()
	text, err := b.node(node).Mini.Get("lockmw:fence")
	if err != nil {
		return 0
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return token
}

// isHeld reports whether a node has granted a key.
func (b *bubble) isHeld(node int, key string) bool {
	return b.node(node).Mini.Exists("lockmw:{" + key + "}")
}

// One counter or clock of three is far off. It does not count, and the other counters stay unchanged.
func TestANodeWhoseTokensAreFarOffDoesNotCount(t *testing.T) {
	for what, set := range map[string]func(b *bubble, node int){
		"counter": func(b *bubble, node int) { b.setCounter(node, farAhead) },
		"clock":   func(b *bubble, node int) { b.node(node).NewClock(b).Step(farAhead) },
	} {
		for off := range 3 {
			inBubble(t, 3, func(b *bubble) {
				set(b, off)
				p, last := b.process(), int64(0)
				for range 3 {
					_, hold, err := p.TryLock(b.Context(), "item")
					if err != nil {
						b.Fatalf("with the %s of node %d far off: %v", what, off, err)
					}
					if hold.Token() <= last || hold.Token() > time.Now().Add(time.Second).UnixMicro() {
						b.Errorf("with the %s of node %d far off: token %d after %d", what, off, hold.Token(), last)
					}
					last = hold.Token()
					usertest.Unlock(b, hold)
				}
				for node := range 3 {
					if ahead := b.counter(node) - time.Now().UnixMicro(); node != off && ahead > time.Second.Microseconds() {
						b.Errorf("the counter of node %d is %d µs ahead", node, ahead)
					}
				}
			})
		}
	}
}

// Without this node too few nodes are left, and the error says why.
func TestWithoutANodeWhoseTokensAreFarOffTooFewAreLeft(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		b.setCounter(2, farAhead)
		p := b.process()
		p.wires[0].Silence()
		_, _, err := p.Lock(b.Context(), "item", lockmw.WithWait(5*time.Second))
		if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "fencing tokens are more than 1m0s ahead") {
			b.Errorf("Lock: %v, want ErrUnavailable that says why", err)
		}
		synctest.Wait()
		if b.isHeld(1, "item") || b.isHeld(2, "item") {
			b.Error("the lock is taken at a node")
		}
		if ahead := b.counter(1) - time.Now().UnixMicro(); ahead > time.Second.Microseconds() {
			b.Errorf("the counter of a node is %d µs ahead", ahead)
		}
	})
}

// A caller may have seen a token that is less far ahead.
func TestTokensThatAreALittleAheadCount(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p, ahead := b.process().warm(), b.setCounter(2, 59*time.Second)
		p.wires[0].Silence()
		_, hold := lock(b.T, p, "item")
		if hold.Token() <= ahead || b.counter(1) < hold.Token() {
			b.Errorf("the token is %d, the counters are %d and %d", hold.Token(), b.counter(1), b.counter(2))
		}
		usertest.Unlock(b, hold)
	})
}

// The majority is right, so a node that is far behind it is off.
func TestTheMajorityOfCountersCounts(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		b.setCounter(1, farAhead)
		ahead := b.setCounter(2, farAhead)
		_, hold, err := b.process().TryLock(b.Context(), "item")
		if err != nil {
			b.Fatal(err)
		}
		if hold.Token() <= ahead {
			b.Errorf("token %d after %d", hold.Token(), ahead)
		}
		usertest.Unlock(b, hold)
	})
}

// The node whose tokens are far off answers before one that is needed.
func TestASlowNodeIsAwaitedIfOthersDoNotAgree(t *testing.T) {
	for off := range 3 {
		inBubble(t, 3, func(b *bubble) {
			p := b.process().warm()
			b.setCounter(off, farAhead)
			slow := p.wires[(off+1)%3].HoldReply("{item}")
			try := p.call("item", lockmw.WithWait(0))
			<-slow.Caught()
			time.Sleep(100 * time.Millisecond)
			slow.Deliver()
			<-try.done
			if try.err != nil {
				b.Fatalf("a try, with node %d far off: %v", off, try.err)
			}
			if try.hold.Token() > time.Now().Add(time.Second).UnixMicro() {
				b.Errorf("token %d is far off", try.hold.Token())
			}
			usertest.Unlock(b, try.hold)
		})
	}
}
