package inspector

import (
	"context"
	"net/http"
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if ctx.Err() != nil {
		return false
	}
	select {
	case q.searching <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (q *queue) leave() { q.searching.leave() }

// bounded limits a route to a bound, and refuses other requests.
func (h *handler) bounded(b bound, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !b.enter() {
			h.refuse(w, r)
			return
		}
		defer b.leave()
		serve(w, r)
	}
}

// refuse answers a request that exceeds a bound.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", retryAfter)
	h.fail(w, r, http.StatusServiceUnavailable, "too_many_requests", "Too many requests",
		"Too many requests for this page. Try again in a few seconds.")
}
