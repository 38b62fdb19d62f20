package httpmw

import (
	"strconv"
	"time"

	"github.com/lockmw/go/internal/retrydelay"
	"github.com/lockmw/go/lockmw"
)

// withRetryAfter returns p with the time for another try; e may be nil.
func (p problem) withRetryAfter(e *lockmw.Error) problem {
	p.RetryAfterMS = roundUp(int64(retrydelay.Of(e)), int64(time.Millisecond))
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
