// Package withhold stops a handler from answering with a success after its work has become void. Errors, and a response that
// has begun, are left alone.
//
//	wrapped, response := withhold.Wrap(ctx, w, void, gate) // void(ctx) says why no success may be sent, or nil
//	next.ServeHTTP(wrapped, r.WithContext(ctx))
//	if void(ctx) != nil && !response.Begun() {
//		response.Withdraw(w.Header())
//		http.Error(w, "…", http.StatusInternalServerError)
//	}
//
// The package knows nothing of locks.
package withhold

import (
	"context"
	"net/http"
)

// Wrap returns a ResponseWriter for the handler, with the same optional methods as w, and the state of the response. While void
// returns an error for ctx, a response cannot begin with a success: a status below 400 is ignored, a write and a Hijack fail
// with that error, and so does a flush that can fail. void is called often, by any goroutine that writes. gate is notified of the
// calls that may wait for the client.
//
// The writers of net/http cost one allocation, the writers of other middleware cost about two dozen.
func Wrap(ctx context.Context, w http.ResponseWriter, void func(context.Context) error, gate Gate) (http.ResponseWriter, *Response) {
	work := work{ctx, void, gate, len(w.Header()["Set-Cookie"])}
	if wrapped, response := wrapServer(w, work); response != nil {
		return wrapped, response
	}
	response := &Response{work: work}
	return wrapHidden(w, wrapAny(w, response), response), response
}
