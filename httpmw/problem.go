package httpmw

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/lockmw/go/internal/withhold"
	"github.com/lockmw/go/lockmw"
)

// opKey is the Op of an error that came from the key function.
const opKey = "key"

// A problem is the body of an error response (RFC 9457). Its texts are constants: neither the key nor
// an error's text may reach a client.
type problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

var (
	problemBusy        = problem{"lock-busy", "Busy", http.StatusConflict, "Another request for the same thing is being handled.", 0}
	problemTimeout     = problem{"lock-timeout", "Still busy", http.StatusServiceUnavailable, "Other requests for the same thing did not finish in time.", 0}
	problemWaiters     = problem{"lock-too-many-waiters", "Too many requests are waiting", http.StatusServiceUnavailable, "Too many requests for the same thing are waiting.", 0}
	problemUnavailable = problem{"lock-unavailable", "Temporarily unavailable", http.StatusServiceUnavailable, "The request cannot be coordinated with others at the moment.", 0}
	problemLost        = problem{"lock-lost", "Lock lost", http.StatusInternalServerError, "The request lost its lock before it was done; it may have been handled in part.", 0}
	problemKey         = problem{"lock-invalid-key", "Bad request", http.StatusBadRequest, "What the request says it is about is missing or not valid.", 0}
	problemTooLarge    = problem{"lock-body-too-large", "Content too large", http.StatusRequestEntityTooLarge, "The request is too long to find out what it is about.", 0}
	problemClaim       = problem{"lock-no-claim", "Unauthorized", http.StatusUnauthorized, "The request does not say who it is from.", 0}
	problemInternal    = problem{"about:blank", "Internal server error", http.StatusInternalServerError, "The server made a mistake.", 0}
)

// problemOf finds what err means to a client.
func problemOf(err error) problem {
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
		if e != nil && e.Op == opKey || errors.Is(err, lockmw.ErrNotRequested) { // no other request was in the way
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

// detailLingers is the truth while a minimum hold keeps the key taken: no request is being handled.
const detailLingers = "A request for the same thing was handled a moment ago."

// about returns p with the words that are true of the holders in the way; e may be nil.
func (p problem) about(e *lockmw.Error) problem {
	if e != nil && len(e.Holders) > 0 && !slices.ContainsFunc(e.Holders, func(h lockmw.Holder) bool { return !h.Lingers }) {
		p.Detail = detailLingers
	}
	return p
}

// WriteError answers a request that was not handled because of its lock. It is the default error
// handler; docs/http.md lists the statuses. The body is application/problem+json, without the
// key and without err's text. An error that is not of lockmw or this package is a 500. WriteError logs
// nothing: the middleware logs every 500, and what makes a lock unavailable, before it calls an error
// handler.
//
// No cache stores the answer. WriteError removes headers that earlier middleware has set for the intended response, such as
// ETag, Expires and CDN-Cache-Control.
//
// 401 has WWW-Authenticate: Bearer, unless the response has that header already.
//
// 409 and 503 have a Retry-After header in whole seconds. It is 1, unless the lock is known to be taken for longer,
// by a minimum hold or a fixed lease: then it says for how long, rounded up, but no more than 5 minutes. Up to a
// tenth is added at random, so that not all clients come back at the same instant.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	p := problemOf(err)
	h := w.Header()
	withhold.Clear(h)
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusUnauthorized && h.Get("Www-Authenticate") == "" {
		h.Set("Www-Authenticate", "Bearer") // a 401 must have a challenge (RFC 9110, 15.5.2)
	}
	if after := p.retryAfterHeader(); after != "" {
		h.Set("Retry-After", after)
	}
	w.WriteHeader(p.Status)
	// The only error is that the client has gone.
	_ = json.NewEncoder(w).Encode(p)
}
