package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// The token of a hold is the k-th smallest of the tokens that the nodes gave. So k nodes gave it or a smaller one. One of them
// had the token of every earlier hold of the key in its counter, and gave a greater one. Before the hold begins, k nodes must
// have the token in their counters, so nodes that gave a smaller one are raised. If all of 2k-1 nodes have granted the lock, k
// have it anyway.

// A choice is the range of tokens that a hold may use.
type choice struct {
	first, last int64 // last < first: the counters of too few nodes have the first
}

// choose returns the tokens of a hold that has at least k votes.
func choose(votes []*vote, k int) choice {
	given := sorted(votes, (*vote).token)
	return choice{first: given[k-1], last: lastReached(votes, k)}
}

// lastReached returns the greatest token that the counters of k nodes have reached.
func lastReached(votes []*vote, k int) int64 {
	return sorted(votes, func(v *vote) int64 { return v.counter })[len(votes)-k]
}

func (v *vote) token() int64 { return v.hold.Token() }

// sorted returns the numbers that of returns, in order.
func sorted(votes []*vote, of func(*vote) int64) []int64 {
	numbers := make([]int64, len(votes))
	for i, v := range votes {
		numbers[i] = of(v)
	}
	slices.Sort(numbers)
	return numbers
}

// outliers returns the votes whose tokens are so far ahead of the others that they are not accepted. Otherwise a clock that is
// years ahead would make all counters run ahead forever.
func outliers(votes []*vote) (list []*vote) {
	if len(votes) == 0 {
		return nil
	}
	given := sorted(votes, (*vote).token)
	median := given[(len(given)-1)/2]
	for _, v := range votes {
		if v.hold.Token() > median+script.MaxAhead.Microseconds() {
			list = append(list, v)
		}
	}
	return list
}

var errTokenAhead = fmt.Errorf("%w: its fencing tokens are more than %v ahead of the other nodes' tokens", core.ErrUnavailable, script.MaxAhead)

// raise sets a node's counter to the last token of a hold, and makes the node show the first as the token of the hold. It then
// calls done with l.mu held.
func (v *vote) raise(first, last int64, done func(err error)) {
	l := v.e.l
	v.raising = true
	l.spawn(func() {
		err := v.hold.Raise(v.n.timeouts.Next(clock.Now()), last, first)
		l.mu.Lock()
		defer l.mu.Unlock()
		v.raising = false
		if err == nil {
			v.counter, v.shows = max(v.counter, last), first
			l.noteToken(last)
		}
		done(err)
	})
}

// raiseGrace is the least time for which a bid waits for nodes that have not answered, before it raises others.
const raiseGrace = time.Millisecond

var errNotVerified = errors.New("it may have lost fencing tokens, and its counter was not raised yet")

// A tokenClock proposes tokens that no node has given yet and that are not behind the clock of any node. If all nodes give the
// same token, none needs a raise. A wrong proposal costs a round trip, and does no harm.
type tokenClock struct {
	base     time.Time // the origin of microseconds
	greatest int64     // greatest token seen
}

// proposalSlack allows for answers that take longer than earlier ones (µs).
const proposalSlack = 500

// propose returns a token; 0 if nothing is known yet.
func (l *Locks) propose(now time.Time) int64 {
	token := int64(0)
	for _, n := range l.nodes {
		if n.ahead != 0 {
			token = max(token, now.Sub(l.clock.base).Microseconds()+n.ahead+proposalSlack)
		}
	}
	if token == 0 {
		return 0
	}
	return max(token, l.clock.greatest+1)
}

// noteClock records the node's clock at the time when the node was asked.
func (n *node) noteClock(asked time.Time, clock int64) {
	ahead := clock - asked.Sub(n.l.clock.base).Microseconds()
	if ahead > n.ahead {
		n.ahead = ahead
	} else {
		n.ahead -= (n.ahead - ahead) / 16 // the clock may have been set back, or one answer was late
	}
}

// noteToken records a token that was given.
func (l *Locks) noteToken(token int64) { l.clock.greatest = max(l.clock.greatest, token) }
