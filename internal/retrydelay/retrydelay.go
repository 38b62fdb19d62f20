// Package retrydelay tells refused clients when to try again, for the middlewares.
package retrydelay

import (
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/lockmw"
)

// latest limits the delay, because the holder of a lock may release it before its known end.
const latest = 5 * time.Minute

// Of returns the time after which another try may succeed: the time from e, or a second; e may be nil. A time of more than a second
// is extended by up to a tenth at random, because many clients may wait for the same instant.
func Of(e *lockmw.Error) time.Duration {
	after := time.Second
	if e != nil && e.RetryAfter > 0 {
		after = min(e.RetryAfter, latest)
	}
	if after > time.Second {
		after += rand.N(after / 10)
	}
	return after
}
