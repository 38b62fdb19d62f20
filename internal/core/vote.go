package core

import (
	"context"
	"time"
)

// A Vote is the part of a request that is special to one of several independent nodes, where a lock is held once a majority of
// the nodes grants it (rule 24 of docs/protocol.md). Such a request has a ticket of its own. If it does not wait, it only tries.
type Vote struct {
	Token        int64  // the proposed token, which the node gives if it may; 0: none
	Tokens       int    // the number of tokens to reserve, at least 1
	NotifyHolder bool   // notify the holder that a call waits, although the request only tries
	Process      string // the name by which an operator recognises the process, which has a different name at each node

	// OnClock is called before Acquire returns a hold, if the node has sent the time on its clock, in microseconds. sent is when
	// the acquire was sent. OnClock must not wait for anything.
	OnClock func(sent time.Time, server int64)
}

// A VoteHold is the Hold of a request with a Vote.
type VoteHold interface {
	Hold
	// LastToken returns the last token of the block that the node has given.
	LastToken() int64
	// Raise raises the node's counter to at least last, and makes the node show token as the token of the hold.
	Raise(ctx context.Context, last, token int64) error
	// IsContended reports whether another caller is known to wait for the node.
	IsContended() bool
}
