package localq

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A lease is passed on within a process without a command, as long as there are tokens for it: lock cohorting, after Dice,
// Marathe and Shavit, "Lock Cohorting: A General Technique for Designing NUMA Locks" (2012).

const (
	minBlock = 64
	// MaxBlock is how many passes have tokens at most. So many take longer than a round trip, whose cost then disappears.
	MaxBlock = 4096
)

// NextBlock returns for how many passes tokens are wanted, when so many calls wait and the last block had tokens for last: the
// block doubles each time while no other process wants the lock.
func NextBlock(last, waiting int) int { return min(max(minBlock, 2*waiting, 2*last), MaxBlock) }

// Tokens are the fencing tokens of a lease that are not used yet.
type Tokens struct{ next, last int64 }

// NewTokens returns the tokens from first to last.
func NewTokens(first, last int64) Tokens { return Tokens{first, last} }

// Take uses the next token.
func (t *Tokens) Take() int64 {
	t.next++
	return t.next - 1
}

// Next returns the next token.
func (t *Tokens) Next() int64 { return t.next }

// Last returns the last one.
func (t *Tokens) Last() int64 { return t.last }

// AreUsed reports whether none is left.
func (t *Tokens) AreUsed() bool { return t.next > t.last }

// MayFollow reports whether a call may have a lease of that length after another one, because their terms are the same: what
// is fixed is not renewed for anybody else.
func MayFollow(from *core.Request, lease time.Duration, to *core.Request) bool {
	return !from.Fixed && !to.Fixed && lease == to.Lease
}
