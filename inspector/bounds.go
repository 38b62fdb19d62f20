package inspector

import (
	"context"
	"net/http"
	"strings"
	"time"
)

const (
	// mostStreams is the maximum number of concurrent event streams; each takes about 0.2 MB of memory.
	mostStreams = 200
	// mostRequests is the maximum number of other concurrent requests. They take some milliseconds, unless Redis is slow.
	mostRequests = 100
	// mostSearches is the maximum number of requests that wait for the running search. A search in 200,000 locks takes 0.1 s.
	mostSearches = 16
	// retryAfter is the Retry-After header of a refused request, in seconds.
	retryAfter = "5"
)

// A bound limits concurrency to its capacity.
type bound chan struct{}

// enter takes a slot until leave. It reports false if none is free.
func (b bound) enter() bool {
	select {
	case b <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b bound) leave() { <-b }

// A queue admits one search at a time, and a few waiters.
type queue struct{ waiting, searching bound }

func newQueue() *queue { return &queue{make(bound, mostSearches), make(bound, 1)} }

// enter waits for its turn, which lasts until leave. It reports false if too many wait or the wait takes too long.
func (q *queue) enter(ctx context.Context) bool {
	if !q.waiting.enter() {
		return false
	}
	defer q.waiting.leave()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	if ctx.Err() != nil {
		return false
	}
	select {
	case q.searching <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-limit.C:
	}
	return false
}

func (q *queue) leave() { q.searching.leave() }

// bounded limits a route to a bound, and refuses other requests.
func bounded(of func(*handler) bound, serve func(*handler, http.ResponseWriter, *http.Request)) func(*handler, http.ResponseWriter, *http.Request) {
	return func(h *handler, w http.ResponseWriter, r *http.Request) {
		b := of(h)
		if !b.enter() {
			h.refuse(w, r)
			return
		}
		defer b.leave()
		serve(h, w, r)
	}
}

func streams(h *handler) bound  { return h.streams }
func requests(h *handler) bound { return h.requests }

// refuse answers a request that exceeds a bound.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", retryAfter)
	const text = "Too many requests for this page. Try again in a few seconds."
	switch name := routeOf(r.URL.Path); {
	case name == "live":
		http.Error(w, text, http.StatusServiceUnavailable)
	case strings.HasSuffix(name, ".json"):
		h.writeJSON(w, http.StatusServiceUnavailable, answer{Prefix: h.hub.insp.Prefix(), Error: &problem{Type: "too_many_requests", Message: text}})
	default:
		h.write(w, h.message(http.StatusServiceUnavailable, "Too many requests", text))
	}
}
