package redlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/quorum"
	"github.com/lockmw/go/lockmw"
)

// A Configuration is which nodes Lockers have, and their quorum.
type Configuration struct {
	Nodes  []string // names that tell servers apart, such as their addresses
	Quorum int      // 0: the majority
}

// CheckStep returns an error that wraps lockmw.ErrInvalidOption if Lockers with one configuration must not be in use within a
// lease of those with the other: two calls could both have a lock, as there is a quorum of the one that has no node in common
// with a quorum of the other. It says so of a change from 3 nodes to 5, and of one in which a node that is alive is replaced.
// There is a way in steps that are allowed, each of which is made everywhere, and a lease passes, before the next:
//
//	3 nodes (quorum 2) → 5 nodes (quorum 4) → 5 nodes (quorum 3)
//	a, b, c (2) → a, b, c, d (3) → a, b, d (2)
//
// A node that is dead for good, and has been for a lease, is none of the old configuration any more: that is the others, with
// the quorum as it was. New nodes need the tokens of the old ones first: see Locker.CarryTokens.
func CheckStep(from, to Configuration) error {
	for _, c := range []*Configuration{&from, &to} {
		if err := c.check(); err != nil {
			return err
		}
	}
	common := 0
	for _, n := range from.Nodes {
		if slices.Contains(to.Nodes, n) {
			common++
		}
	}
	// As few of the common nodes as a quorum can do with.
	least := max(0, from.Quorum-(len(from.Nodes)-common)) + max(0, to.Quorum-(len(to.Nodes)-common))
	if least <= common {
		return invalid("a quorum of %d of %d nodes and one of %d of %d need not have a node in common: two calls could have a lock; take a step between them",
			from.Quorum, len(from.Nodes), to.Quorum, len(to.Nodes))
	}
	return nil
}

// check sets the default of the quorum.
func (c *Configuration) check() error {
	names := slices.Clone(c.Nodes)
	slices.Sort(names)
	if len(names) == 0 || len(slices.Compact(names)) < len(c.Nodes) {
		return invalid("a configuration without nodes, or with one of them twice")
	}
	s := settings{cfg: quorum.Config{Quorum: c.Quorum}}
	err := s.setQuorum(len(c.Nodes))
	c.Quorum = s.cfg.Quorum
	return err
}

// CarryTokens has nodes that are about to take part know the fencing tokens of the Locker's nodes, so that tokens go on to
// rise. It is called before any Locker has the new nodes, and again by each process when its old Locker is closed and before
// it uses a new one. It returns an error that wraps lockmw.ErrUnavailable if too few of the Locker's nodes answer, or a new
// one does not, or its clock is more than a minute behind.
func (l *Locker) CarryTokens(ctx context.Context, to ...*lockmw.Client) error {
	engines, err := enginesOf(to)
	if ctx == nil {
		err = invalid("the context is nil")
	}
	if err != nil {
		return err
	}
	if err := l.made().locks.CarryTokens(ctx, engines); err != nil {
		return fmt.Errorf("redlock: tokens are not carried over: %w", err)
	}
	return nil
}
