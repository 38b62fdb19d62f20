package redlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/quorum"
	"github.com/lockmw/go/lockmw"
)

// A Configuration describes the nodes and the quorum of a Locker, for CheckStep.
type Configuration struct {
	Nodes  []string // unique names of the servers, such as their addresses
	Quorum int      // 0: the majority
}

// CheckStep checks that two configurations may be in use within a lease of each other, as while nodes are changed. It returns an
// error that wraps lockmw.ErrInvalidOption unless every quorum of one shares a node with every quorum of the other. Otherwise two
// calls could hold a lock.
//
// It refuses a change from 3 nodes to 5, and the replacement of a node that is alive. Both are possible in steps that CheckStep
// allows. Make each step in all processes, and let a lease pass before the next step:
//
//	3 nodes (quorum 2) → 5 nodes (quorum 4) → 5 nodes (quorum 3)
//	a, b, c (2) → a, b, c, d (3) → a, b, d (2)
//
// A node that is dead for good, and has been dead for a lease, no longer counts: the old configuration is then the other nodes, with
// the same quorum. New nodes first need the tokens of the old ones: see Locker.CarryTokens. docs/redlock.md describes all steps.
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
	// The fewest common nodes that the two quorums can contain together.
	least := max(0, from.Quorum-(len(from.Nodes)-common)) + max(0, to.Quorum-(len(to.Nodes)-common))
	if least <= common {
		return invalid("a quorum of %d of %d nodes and a quorum of %d of %d may have no node in common, so two calls could hold a lock: add a step between them",
			from.Quorum, len(from.Nodes), to.Quorum, len(to.Nodes))
	}
	return nil
}

// check checks the configuration, and sets the default of the quorum.
func (c *Configuration) check() error {
	names := slices.Clone(c.Nodes)
	slices.Sort(names)
	if len(names) == 0 || len(slices.Compact(names)) < len(c.Nodes) {
		return invalid("a configuration has no nodes, or a node twice")
	}
	s := settings{cfg: quorum.Config{Quorum: c.Quorum}}
	err := s.setQuorum(len(c.Nodes))
	c.Quorum = s.cfg.Quorum
	return err
}

// CarryTokens copies the fencing tokens of the Locker's nodes to nodes that are about to take part, so that tokens continue to rise.
// Call it before any Locker has the new nodes. Call it again in each process after its old Locker has been closed and before the
// first call on its new one.
//
// It returns an error that wraps lockmw.ErrUnavailable if fewer than n-k+1 of the Locker's n nodes answer (k is the quorum; a node in
// its quarantine does not count), if a new node does not answer, or if a new node's clock is more than a minute behind. If the nodes
// have a quarantine, CarryTokens first raises the counters of those that may have lost tokens.
func (l *Locker) CarryTokens(ctx context.Context, to ...*lockmw.Client) error {
	engines, err := enginesOf(to)
	if ctx == nil {
		err = invalid("the context is nil")
	}
	if err != nil {
		return err
	}
	if err := l.made().locks.CarryTokens(ctx, engines); err != nil {
		return fmt.Errorf("redlock: tokens were not copied: %w", err)
	}
	return nil
}
