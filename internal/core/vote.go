package core

import (
	"context"
	"time"
)

// A Vote says how a request differs that is for one of several independent nodes: the lock is had by who has it at most of
// them (rule 24 of docs/protocol.md). Such a request has a ticket of its own. If it does not wait, it only tries.
type Vote struct {
	Token   int64  // proposed: the node gives this one if it may; 0: none
	Tokens  int    // how many are wanted, at least 1
	Wants   bool   // the holder is to learn that somebody waits, though the request only tries
	Process string // how an operator recognises the process, which has a name of its own at each node

	// Clocked is called before Acquire returns a hold, if the node has said what its clock shows, in microseconds. The acquire was
	// sent at the time given. It must not wait for anything.
	Clocked func(sent time.Time, server int64)
}

// A VoteHold is the Hold of a request with a Vote.
type VoteHold interface {
	Hold
	// LastToken returns the last of the tokens that the node has given with the first.
	LastToken() int64
	// Raise has the node's counter be at least last, and has the node show token as that of the hold.
	Raise(ctx context.Context, last, token int64) error
	// IsContended reports whether somebody else is known to wait for the node.
	IsContended() bool
}
