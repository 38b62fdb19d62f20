package inspector

import (
	"context"
	"net/http"
	"strings"
	"time"
)

const (
	// mostStreams is how many streams of changes a handler has side by side: some 0.2 MB of memory each.
	mostStreams = 200
	// mostRequests is how many other requests it serves side by side. They take some milliseconds, unless Redis is slow.
	mostRequests = 100
	// mostSearches is how many requests wait for the one that searches. In 200,000 locks it takes 0.1 s.
	mostSearches = 16
	// retryAfter is what a request is told that comes beyond a bound.
	retryAfter = "5"
)

// A bound is how much may run side by side.
type bound chan struct{}

// enter reports whether there is room, and takes it until leave.
func (b bound) enter() bool {
	select {
	case b <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b bound) leave() { <-b }

// A queue lets one search at a time, and few wait for it.
type queue struct{ waiting, searching bound }

func newQueue() *queue { return &queue{make(bound, mostSearches), make(bound, 1)} }

// enter waits for its turn, which lasts until leave. It reports whether that has come: not if too many wait, or for too long.
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

// bounded serves requests up to a bound.
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

// refuse answers a request beyond a bound.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", retryAfter)
	const text = "Too many look at this page. Try again in some seconds."
	switch name := routeOf(r.URL.Path); {
	case name == "live":
		http.Error(w, text, http.StatusServiceUnavailable)
	case strings.HasSuffix(name, ".json"):
		h.writeJSON(w, http.StatusServiceUnavailable, answer{Prefix: h.hub.insp.Prefix(), Error: &problem{Type: "too_many_requests", Message: text}})
	default:
		h.write(w, h.message(http.StatusServiceUnavailable, "Too many requests", text))
	}
}
