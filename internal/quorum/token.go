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
func choose(ballots []*ballot, k int) choice {
	var given []int64
	for _, b := range ballots {
		given = append(given, b.hold.Token())
	}
	slices.Sort(given)
	return choice{first: given[k-1], last: lastKnown(ballots, k)}
}

// lastKnown returns the greatest token that k of those nodes know.
func lastKnown(ballots []*ballot, k int) int64 {
	var known []int64
	for _, b := range ballots {
		known = append(known, b.knows)
	}
	slices.Sort(known)
	return known[len(known)-k]
}

// outliers returns those whose tokens are so far ahead of the others' that they are not believed: a clock that is years
// ahead must not make all counters run ahead for ever.
func outliers(ballots []*ballot) (list []*ballot) {
	if len(ballots) == 0 {
		return nil
	}
	given := make([]int64, 0, len(ballots))
	for _, b := range ballots {
		given = append(given, b.hold.Token())
	}
	slices.Sort(given)
	median := given[(len(given)-1)/2]
	for _, b := range ballots {
		if b.hold.Token() > median+script.MaxAhead.Microseconds() {
			list = append(list, b)
		}
	}
	return list
}

var errTokenAhead = fmt.Errorf("%w: its fencing tokens are more than %v ahead of those of the other nodes", core.ErrUnavailable, script.MaxAhead)

// raise has a node know the last token of a hold, and show the first as that of the hold. It then calls done with l.mu held.
func (b *ballot) raise(first, last int64, done func(err error)) {
	l := b.e.l
	b.raising = true
	l.spawn(func() {
		ctx, cancel := context.WithTimeout(b.n.engine.Context(), l.cfg.Limit)
		defer cancel()
		err := b.hold.Raise(ctx, last, first)
		l.mu.Lock()
		defer l.mu.Unlock()
		b.raising = false
		if err == nil {
			b.knows, b.shows = max(b.knows, last), first
			l.noteToken(last)
		}
		done(err)
	})
}

// raiseGrace is how long an attempt waits for nodes that have not answered, at least, before it raises others.
const raiseGrace = time.Millisecond

var errNotRaised = errors.New("it may have forgotten fencing tokens, and has not been told of them yet")
