package httpmw

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockmw/go/lockmw"
)

// latestRetry limits the time of a Retry-After, because the holder of a lock may release it before its known end.
const latestRetry = 5 * time.Minute

// retryAfter returns the time after which another try may succeed: the time from e, or a second. A time of more than a second is
// extended by up to a tenth at random, because many clients may wait for the same instant.
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

// withRetryAfter returns p with the time for another try; e may be nil.
func (p problem) withRetryAfter(e *lockmw.Error) problem {
	p.RetryAfterMS = roundUp(int64(retryAfter(e)), int64(time.Millisecond))
	return p
}

// retryAfterHeader returns the value of Retry-After in whole seconds, at least 1; "" if the client should not retry.
func (p problem) retryAfterHeader() string {
	if p.RetryAfterMS == 0 {
		return ""
	}
	return strconv.FormatInt(roundUp(p.RetryAfterMS, 1000), 10)
}

// roundUp returns n in units, rounded up. n is not negative.
func roundUp(n, unit int64) int64 {
	if n%unit == 0 {
		return n / unit
	}
	return n/unit + 1
}
