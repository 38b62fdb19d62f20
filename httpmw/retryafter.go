package httpmw

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockmw/go/lockmw"
)

// latestRetry is the longest time after which a client is told to try again. It is for locks that are known to
// stay taken: their holders may still release them before.
const latestRetry = 5 * time.Minute

// retryAfter returns in which time another try may be worthwhile: what the lock knows, or a second. What is more
// than a second gets up to a tenth longer at random, because many clients may wait for the same instant.
func retryAfter(e *lockmw.Error) time.Duration {
	after := time.Second
	if e != nil && e.RetryAfter > 0 {
		after = min(e.RetryAfter, latestRetry)
	}
	if after > time.Second {
		after += rand.N(after / 10)
	}
	return after
}

// withRetryAfter returns p for a client that may send its request again; e may be nil.
func (p problem) withRetryAfter(e *lockmw.Error) problem {
	p.RetryAfterMS = roundUp(int64(retryAfter(e)), int64(time.Millisecond))
	return p
}

// retryAfterHeader returns the value of the header Retry-After, in whole seconds, at least 1; "" if p
// has none.
func (p problem) retryAfterHeader() string {
	if p.RetryAfterMS == 0 {
		return ""
	}
	return strconv.FormatInt(roundUp(p.RetryAfterMS, 1000), 10)
}

// roundUp returns n, which is not negative, in whole units.
func roundUp(n, unit int64) int64 {
	if n%unit == 0 {
		return n / unit
	}
	return n/unit + 1
}
