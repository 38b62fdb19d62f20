package quorum_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/engine"
	"github.com/lockmw/go/internal/quorum"
)

// So k nodes have given the token or a smaller one, and one of these k knew the tokens of all earlier holds. Every node that
// counts knows the token afterwards, and shows it.
func TestTheTokenOfAHoldIsTheKthSmallestOfThoseGiven(t *testing.T) {
	for _, tt := range []struct {
		ahead  []int // by how many seconds the counters of the nodes are
		quorum int
		want   int // the node that has given the token
	}{
		{ahead: []int{10}, quorum: 1, want: 0},
		{ahead: []int{10, 20, 30}, quorum: 2, want: 1},
		{ahead: []int{30, 10, 20}, quorum: 2, want: 2},
		{ahead: []int{10, 20, 30}, quorum: 3, want: 2},
		{ahead: []int{50, 20, 30, 10, 40}, quorum: 3, want: 2},
		{ahead: []int{50, 20, 30, 10, 40}, quorum: 4, want: 4},
	} {
		t.Run(fmt.Sprintf("quorum %d, counters %v", tt.quorum, tt.ahead), func(t *testing.T) {
			inBubble(t, len(tt.ahead), func(b *bubble) {
				p := b.process(needs(tt.quorum))
				var counters []int64
				for i, s := range tt.ahead {
					counters = append(counters, b.setCounter(i, time.Duration(s)*time.Second))
				}
				token := p.lock("item").hold.Token()
				if token != counters[tt.want]+1 {
					b.Errorf("the token is %d; the counters were %v", token, counters)
				}
				for i := range b.nodes {
					if b.counter(i) < token || b.token(i, "item") != token {
						b.Errorf("node %d: its counter is %d, and it shows %d; the token is %d", i, b.counter(i), b.token(i, "item"), token)
					}
				}
			})
		})
	}
}

// Of three nodes two answer, and only one of them knows the token that they choose.
func TestAHoldBeginsWhenAQuorumKnowsItsToken(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		ahead := b.setCounter(1, 30*time.Second)
		p.cut(0)
		raise := p.wires[2].Withhold(strconv.FormatInt(ahead+1, 10))
		c := p.call("item")
		b.caught(raise)
		time.Sleep(limit / 2)
		if c.returned() {
			b.Fatalf("the hold begins before a second node knows its token: %v", c.err)
		}
		raise.Break() // and so it is sent again
		c.await()
		if c.err != nil || c.hold.Token() != ahead+1 || b.counter(2) != ahead+1 {
			b.Errorf("Acquire: %v, %+v; the counter is %d, want %d", c.err, c.hold, b.counter(2), ahead+1)
		}
	})
}

// The node that does not learn the token has refused nothing else, and is free afterwards.
func TestANodeThatCannotLearnTheTokenDoesNotCount(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		ahead := b.setCounter(1, 30*time.Second)
		p.cut(0)
		raise := p.wires[2].Withhold(strconv.FormatInt(ahead+1, 10))
		c := p.try("item")
		b.caught(raise)
		if !errors.Is(c.err, core.ErrUnavailable) {
			b.Errorf("Acquire: %v, want ErrUnavailable", c.err)
		}
		p.restore()
		time.Sleep(5 * time.Second)
		if held := b.holding("item"); len(held) > 0 {
			b.Errorf("nodes %v are still held", held)
		}
	})
}

// Each of two holds has two nodes of three, and they have one in common. It has learnt of the first hold's token, which another
// node has given.
func TestTokensRiseAlthoughHoldsHaveOnlyOneNodeInCommon(t *testing.T) {
	for gives := range 3 {
		inBubble(t, 3, func(b *bubble) {
			p, q := b.process().warm(), b.process().warm()
			common, other := (gives+1)%3, (gives+2)%3
			b.setCounter(gives, 30*time.Second)
			p.cut(other)
			first := p.lock("item")
			b.release(first)
			q.cut(gives)
			if next := q.lock("item"); next.hold.Token() <= first.hold.Token() {
				b.Errorf("nodes %d and %d: token %d after %d", common, other, next.hold.Token(), first.hold.Token())
			}
		})
	}
}

// The clocks of the nodes differ, so that each would give a token of its own.
func TestTheSameTokenIsProposedToAllNodes(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		for i, s := range b.nodes {
			s.NewClock(b).Step(time.Duration(i) * 100 * time.Millisecond)
		}
		p := b.process().warm()
		p.record()
		token := p.lock("item").hold.Token()
		for i, n := range p.scripts(aboutItem) {
			if b.token(i, "item") != token || n != 1 {
				b.Errorf("node %d shows %d after %d commands; the token is %d", i, b.token(i, "item"), n, token)
			}
		}
	})
}

// One node has given a token that the others do not know, for another key.
func TestAProposalIsNotBehindATokenThatOneNodeHasGiven(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		ahead := b.setCounter(1, 900*time.Millisecond) // a proposal may be a second ahead of a node's clock
		p.lock("seen")
		p.record()
		token := p.lock("item").hold.Token()
		if n := p.scripts(aboutItem); token <= ahead || n[0] != 1 || n[1] != 1 || n[2] != 1 {
			b.Errorf("token %d after %d; the nodes were sent %v commands, want one each", token, ahead, n)
		}
	})
}

func TestWithoutTokensNodesAreNotToldOfThem(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process(func(cfg *quorum.Config) { cfg.Tokens = false }).warm()
		b.setCounter(1, 30*time.Second)
		p.cut(0)
		p.record()
		c := p.lock("item")
		if n := p.scripts(aboutItem); c.hold.Token() != 0 || n[1] != 1 || n[2] != 1 {
			b.Errorf("the token is %d; the nodes were sent %v commands, want one each", c.hold.Token(), n[1:])
		}
	})
}

// The counters of new servers begin behind no token of these nodes. So many nodes are asked that one of them knows each token.
func TestNewServersAreToldOfTheGreatestToken(t *testing.T) {
	for cut := range 3 {
		t.Run(fmt.Sprintf("%d nodes unreachable", cut), func(t *testing.T) {
			inBubble(t, 4, func(b *bubble) {
				fresh := b.engine(b.nodes[3])
				old := &bubble{T: b.T, nodes: b.nodes[:3]}
				p := old.process().warm()
				greatest := b.setCounter(1, 30*time.Second)
				p.cut([]int{2, 0}[:cut]...)
				err := p.CarryTokens(b.Context(), []*engine.Engine{fresh})
				switch {
				case cut < 2 && (err != nil || b.counter(3) != greatest):
					b.Errorf("CarryTokens: %v; the new counter is %d, want %d", err, b.counter(3), greatest)
				case cut == 2 && (!errors.Is(err, core.ErrUnavailable) || b.counter(3) != 0):
					b.Errorf("CarryTokens: %v, want ErrUnavailable; the new counter is %d", err, b.counter(3))
				}
			})
		})
	}
}
