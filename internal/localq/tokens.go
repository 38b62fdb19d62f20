package localq

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A lease is passed on within a process without a command, as long as it has tokens. This is lock cohorting: Dice, Marathe and
// Shavit, "Lock Cohorting: A General Technique for Designing NUMA Locks" (2012).

const (
	minBlock = 64
	// MaxBlock is the longest token block, in passes. So many passes take longer than a round trip, whose cost then disappears.
	MaxBlock = 4096
)

// NextBlock returns how many passes the next token block is for. waiting is the number of waiting calls, and last is the previous
// block. The block doubles each time while no other process wants the lock.
func NextBlock(last, waiting int) int { return min(max(minBlock, 2*waiting, 2*last), MaxBlock) }

// Tokens are the unused fencing tokens of a lease.
type Tokens struct{ next, last int64 }

// NewTokens returns the tokens from first to last.
func NewTokens(first, last int64) Tokens { return Tokens{first, last} }

// Take uses the next token.
func (t *Tokens) Take() int64 {
	t.next++
	return t.next - 1
}

// Next returns the next token without using it.
func (t *Tokens) Next() int64 { return t.next }

// Last returns the last token.
func (t *Tokens) Last() int64 { return t.last }

// IsEmpty reports whether none is left.
func (t *Tokens) IsEmpty() bool { return t.next > t.last }

// MayFollow reports whether the call to may receive a lease of that length after the call from: their terms must be the same, and
// a fixed lease is not renewed for another call.
func MayFollow(from *core.Request, lease time.Duration, to *core.Request) bool {
	return !from.Fixed && !to.Fixed && lease == to.Lease
}
