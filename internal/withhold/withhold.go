// Package withhold keeps a handler from answering with a success when something has happened in the
// meantime that makes its work void. Errors, and a response that has begun, are left alone.
//
//	wrapped, response := withhold.Wrap(ctx, w, void) // void(ctx) says why no success may be sent, or nil
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

// Wrap returns a ResponseWriter for the handler, with the optional methods of w and no others, and what
// is known of the response. While void returns an error for ctx, a response cannot begin with a
// success: a status below 400 is ignored, a write and a Hijack fail with that error, and so does a flush
// where it can. void is called often, and by whatever goroutines write.
//
// The writers of net/http cost one allocation, the writers of other middleware cost about two dozen.
func Wrap(ctx context.Context, w http.ResponseWriter, void func(context.Context) error) (http.ResponseWriter, *Response) {
	work := work{ctx, void, len(w.Header()["Set-Cookie"])}
	if wrapped, response := wrapServer(w, work); response != nil {
		return wrapped, response
	}
	response := &Response{work: work}
	return wrapHidden(w, wrapAny(w, response), response), response
}
