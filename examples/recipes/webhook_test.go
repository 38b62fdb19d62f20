// Package recipes_test tests the recipes of docs/recipes.md.
package recipes_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/go/examples/recipes/webhook"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

func checkSignature(next http.Handler) http.Handler { return next }

// deliver sends an event as its provider does.
func deliver(h http.Handler, id string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/hooks/acme", strings.NewReader("paid"))
	if id != "" {
		req.Header.Set("Acme-Event-Id", id)
	}
	h.ServeHTTP(rec, req)
	return rec
}

func TestAnEventIsHandledUntilThatSucceeds(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	calls := 0
	h := webhook.Receive(idempotency.New(lockmw.NewLocal()), "acme", "Acme-Event-Id", func(_ context.Context, event []byte) error {
		if calls++; calls == 1 || string(event) != "paid" {
			return errors.New("the database is down")
		}
		return nil
	})
	for i, want := range []struct {
		id          string
		code, calls int
	}{
		{"1", http.StatusServiceUnavailable, 1},
		{"1", http.StatusNoContent, 2},
		{"1", http.StatusNoContent, 2},
		{"2", http.StatusNoContent, 3},
		{"", http.StatusBadRequest, 3},
		{strings.Repeat("1", 256), http.StatusBadRequest, 3},
	} {
		if rec := deliver(h, want.id); rec.Code != want.code || calls != want.calls {
			t.Errorf("delivery %d: %d after %d calls, want %d after %d", i+1, rec.Code, calls, want.code, want.calls)
		}
	}
}

// Providers wait for some seconds. An event whose work takes longer would otherwise end unfinished, each time that it comes.
func TestAnEventIsHandledAlthoughItsProviderHangsUp(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	calls := 0
	h := webhook.Receive(idempotency.New(lockmw.NewLocal()), "acme", "Acme-Event-Id", func(ctx context.Context, _ []byte) error {
		calls++
		hangUp()
		return ctx.Err()
	})
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hooks/acme", strings.NewReader("paid"))
	req.Header.Set("Acme-Event-Id", "1")
	h.ServeHTTP(httptest.NewRecorder(), req)
	if rec := deliver(h, "1"); rec.Code != http.StatusNoContent || calls != 1 {
		t.Errorf("the repetition: %d after %d calls", rec.Code, calls)
	}
}
