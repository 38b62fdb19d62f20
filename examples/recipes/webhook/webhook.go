// Package webhook receives the events of a provider, which may send each of them several times, and handles each event once.
// Copy it; docs/recipes.md describes it.
package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// maxEvent is the greatest size of an event in bytes.
const maxEvent = 1 << 20

// Receive returns a handler for the events of a provider, whose IDs are in a header. Mount it inside the check of the
// provider's signature. handle gets the body of an event. If it returns an error, the provider gets 503, and the event is
// handled again when it comes again. The context of handle does not end when the provider hangs up.
func Receive(once *idempotency.Runner, provider, header string, handle func(ctx context.Context, event []byte) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
		if err != nil {
			http.Error(w, "the event cannot be read", http.StatusBadRequest)
			return
		}
		key := idempotency.Key{Scope: provider, ID: r.Header.Get(header)}
		// The ID alone identifies an event: its body may have a new time of sending. So the request is empty, and handle gets event.
		type none struct{}
		ctx := context.WithoutCancel(r.Context()) // a provider that hangs up sends the event again, and finds it handled
		_, err = idempotency.Do(ctx, once, key, none{}, idempotency.RunAgain, func(ctx context.Context, _ none) (none, error) {
			return none{}, handle(ctx, event)
		})
		switch {
		case err == nil: // handled now or earlier
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, lockmw.ErrInvalidKey):
			http.Error(w, "the ID of the event is missing or too long", http.StatusBadRequest)
		default: // the provider sends it again
			slog.ErrorContext(r.Context(), "an event was not handled", "provider", provider, "error", err)
			w.Header().Set("Retry-After", "10")
			http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		}
	})
}
