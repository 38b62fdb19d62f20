package quorum

import (
	"time"
)

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
