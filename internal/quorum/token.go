package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// The token of a hold is the k-th smallest of those that the nodes have given it. So k nodes have given it or a lesser one:
// one of them knew the token of every earlier hold of the key, and gave a greater one. And k nodes have to know it before the
// hold begins: those that have given a lesser one are raised. If all of 2k-1 nodes have granted the lock, k know it anyway.

// choice is the tokens that a hold may have.
type choice struct {
	first, last int64 // last < first: too few nodes know the first
}

// choose returns the tokens of a hold that has those nodes, at least k.
func choose(votes []*vote, k int) choice {
	var given []int64
	for _, v := range votes {
		given = append(given, v.hold.Token())
	}
	slices.Sort(given)
	return choice{first: given[k-1], last: lastKnown(votes, k)}
}

// lastKnown returns the greatest token that k of those nodes know.
func lastKnown(votes []*vote, k int) int64 {
	var known []int64
	for _, v := range votes {
		known = append(known, v.knows)
	}
	slices.Sort(known)
	return known[len(known)-k]
}

// outliers returns those whose tokens are so far ahead of the others' that they are not believed: a clock that is years
// ahead must not make all counters run ahead for ever.
func outliers(votes []*vote) (list []*vote) {
	if len(votes) == 0 {
		return nil
	}
	given := make([]int64, 0, len(votes))
	for _, v := range votes {
		given = append(given, v.hold.Token())
	}
	slices.Sort(given)
	median := given[(len(given)-1)/2]
	for _, v := range votes {
		if v.hold.Token() > median+script.MaxAhead.Microseconds() {
			list = append(list, v)
		}
	}
	return list
}

var errTokenAhead = fmt.Errorf("%w: its fencing tokens are more than %v ahead of those of the other nodes", core.ErrUnavailable, script.MaxAhead)

// raise has a node know the last token of a hold, and show the first as that of the hold. It then calls done with l.mu held.
func (v *vote) raise(first, last int64, done func(err error)) {
	l := v.e.l
	v.raising = true
	l.spawn(func() {
		ctx, cancel := context.WithTimeout(v.n.engine.Context(), l.cfg.Limit)
		defer cancel()
		err := v.hold.Raise(ctx, last, first)
		l.mu.Lock()
		defer l.mu.Unlock()
		v.raising = false
		if err == nil {
			v.knows, v.shows = max(v.knows, last), first
			l.noteToken(last)
		}
		done(err)
	})
}

// raiseGrace is how long a bid waits for nodes that have not answered, at least, before it raises others.
const raiseGrace = time.Millisecond

var errNotRaised = errors.New("it may have forgotten fencing tokens, and has not been told of them yet")

// A tokenClock proposes tokens: one that no node has given yet, and that is not behind the clock of any. If all nodes give the
// same token, none has to be raised. A proposal that is wrong costs a round trip, and does no harm.
type tokenClock struct {
	base     time.Time // an instant that microseconds are counted from
	greatest int64     // token that was seen
}

// proposalSlack is for answers that take a different time than the ones before (µs).
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

// noteClock notes what the node's clock was when it was asked then.
func (n *node) noteClock(asked time.Time, clock int64) {
	ahead := clock - asked.Sub(n.l.clock.base).Microseconds()
	if ahead > n.ahead {
		n.ahead = ahead
	} else {
		n.ahead -= (n.ahead - ahead) / 16 // the clock may have been set back, or one answer was late
	}
}

// noteToken notes a token that was given.
func (l *Locks) noteToken(token int64) { l.clock.greatest = max(l.clock.greatest, token) }
