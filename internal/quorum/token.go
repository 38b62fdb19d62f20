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
