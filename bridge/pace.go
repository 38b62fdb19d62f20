package bridge

import (
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/clock"
)

// While the old key is taken, a call that waits polls it. Pauses double within these limits.
const (
	minPollPause = 5 * time.Millisecond
	maxPollPause = 80 * time.Millisecond
)

// A pace is the pauses between the polls of a call. They are short again when the key has passed from one holder to another:
// callers of rueidislock and Redisson are woken by a release, and leave the key free for less than a millisecond.
type pace struct {
	rest time.Duration
	ends clock.Instant // when the holder's lease expires
}

// sameEnd is how much later the same lease may seem to expire at the next poll, because that took less time.
const sameEnd = 5 * time.Millisecond

// next returns the pause after a poll that was sent then, and found the key taken for left; 0: unknown.
func (p *pace) next(sent clock.Instant, left time.Duration) time.Duration {
	ends := sent.Add(left)
	if p.rest == 0 || left > 0 && p.ends.Add(sameEnd).Before(ends) {
		p.rest = minPollPause
	} else {
		p.rest = min(2*p.rest, maxPollPause)
	}
	p.ends = ends
	return p.rest/2 + rand.N(p.rest/2)
}
