package httpmw

import (
	"strconv"
	"time"

	"github.com/lockmw/go/lockmw"
)

// retryAfter returns in which time another try may be worthwhile: what the lock knows, or a second.
func retryAfter(e *lockmw.Error) time.Duration {
	if e != nil && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return time.Second
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
