package httpmw

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/retrydelay"
	"github.com/lockmw/go/internal/withhold"
	"github.com/lockmw/go/lockmw"
)

// opKey is the Op of an error of the key function.
const opKey = "key"

// A problem is the body of an error response (RFC 9457). Its texts are constants, so that neither the key nor the text of an
// error reaches a client.
type problem struct {
	Type           string `json:"type"`
	Title          string `json:"title"`
	Status         int    `json:"status"`
	Detail         string `json:"detail"`
	RetryAfterMS   int64  `json:"retry_after_ms,omitempty"`
	AnswerStatus   int    `json:"answer_status,omitempty"` // of an earlier request that was handled
	AnswerLocation string `json:"answer_location,omitempty"`
}

func newProblem(name, title string, status int, detail string) problem {
	return problem{Type: name, Title: title, Status: status, Detail: detail}
}

var (
	problemBusy        = newProblem("lock-busy", "Busy", http.StatusConflict, "Another request for the same thing is being handled.")
	problemTimeout     = newProblem("lock-timeout", "Still busy", http.StatusServiceUnavailable, "Other requests for the same thing did not finish in time.")
	problemWaiters     = newProblem("lock-too-many-waiters", "Too many requests are waiting", http.StatusServiceUnavailable, "Too many requests for the same thing are waiting.")
	problemUnavailable = newProblem("lock-unavailable", "Temporarily unavailable", http.StatusServiceUnavailable, "The request cannot be coordinated with others at the moment.")
	problemLost        = newProblem("lock-lost", "Lock lost", http.StatusInternalServerError, "The request lost its lock before it was finished; it may have been handled in part.")
	problemKey         = newProblem("lock-invalid-key", "Bad request", http.StatusBadRequest, "The part of the request that identifies its subject is missing or not valid.")
	problemTooLarge    = newProblem("lock-body-too-large", "Content too large", http.StatusRequestEntityTooLarge, "The request body is too long.")
	problemClaim       = newProblem("lock-no-claim", "Unauthorized", http.StatusUnauthorized, "The request is not authenticated.")
	problemInternal    = newProblem("about:blank", "Internal server error", http.StatusInternalServerError, "The server failed to handle the request.")
)

// problemOf returns the problem that err is for a client.
func problemOf(err error) problem {
	if p, found := idempotencyProblem(err); found {
		return p
	}
	e, _ := errors.AsType[*lockmw.Error](err)
	switch {
	case errors.Is(err, ErrNoClaim):
		return problemClaim
	case errors.Is(err, ErrWiring):
		return problemInternal
	case errors.Is(err, lockmw.ErrLost):
		return problemLost
	case errors.As(err, new(*http.MaxBytesError)):
		return problemTooLarge
	case errors.Is(err, lockmw.ErrInvalidKey):
		return problemKey
	case errors.Is(err, lockmw.ErrTooManyWaiters):
		return problemWaiters.withRetryAfter(e)
	case errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrClosed):
		return problemUnavailable.withRetryAfter(e)
	case errors.Is(err, context.DeadlineExceeded):
		if e != nil && e.Op == opKey || errors.Is(err, lockmw.ErrNotRequested) { // not blocked by another request
			return problemUnavailable.withRetryAfter(e)
		}
		return problemTimeout.about(e).withRetryAfter(e)
	case errors.Is(err, lockmw.ErrBusy) && e != nil && e.Waited > 0:
		return problemTimeout.about(e).withRetryAfter(e)
	case errors.Is(err, lockmw.ErrBusy):
		return problemBusy.about(e).withRetryAfter(e)
	}
	return problemInternal
}

// detailLingers is for a key that only a minimum hold keeps taken: no request is being handled.
const detailLingers = "A request for the same thing was handled a moment ago."

// about returns p with the detail that fits the current holders; e may be nil.
func (p problem) about(e *lockmw.Error) problem {
	if e != nil && len(e.Holders) > 0 && !slices.ContainsFunc(e.Holders, func(h lockmw.Holder) bool { return !h.Lingers }) {
		p.Detail = detailLingers
	}
	return p
}

// withRetryAfter returns p with the time for another try; e may be nil.
func (p problem) withRetryAfter(e *lockmw.Error) problem {
	p.RetryAfterMS = roundUp(int64(retrydelay.Of(e)), int64(time.Millisecond))
	return p
}

// roundUp returns n in units, rounded up. n is not negative.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit }

// WriteError writes the response to a request that was refused because of its lock. It is the default error handler;
// docs/http.md and docs/idempotency.md list the statuses. The body is application/problem+json, without the key and without the text of err. An error
// that comes neither from lockmw or idempotency nor from this package is a 500. WriteError does not log: the middleware logs every 500, and the
// reason for every unavailable lock, before it calls an error handler.
//
// No cache stores the response: it has Cache-Control: no-store. WriteError removes headers that earlier middleware has set for the
// intended response, such as ETag, Expires and CDN-Cache-Control.
//
// 401 carries WWW-Authenticate: Bearer, unless the response has that header already.
//
// 409 and 503 carry Retry-After, in whole seconds. It is normally 1. If a minimum hold or a fixed lease is known to keep the lock
// for longer, it is that time, rounded up, but at most 5 minutes. Up to a tenth is added at random, so that clients do not all
// retry together.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	p := problemOf(err)
	h := w.Header()
	withhold.Clear(h)
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusUnauthorized && h.Get("Www-Authenticate") == "" {
		h.Set("Www-Authenticate", "Bearer") // a 401 must have a challenge (RFC 9110, 15.5.2)
	}
	if p.RetryAfterMS > 0 {
		h.Set("Retry-After", strconv.FormatInt(roundUp(p.RetryAfterMS, 1000), 10))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // fails only if the client has disconnected
}
