package httpmw_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The holder is the first request with the key, so the hint that a call may wait for itself would be wrong.
func TestAWaitForTheFirstAnswerIsNotReportedAsASelfWait(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var log usertest.Output
		c := usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		user := func(*http.Request) (string, error) { return "7", nil }
		h := httpmw.Idempotent(idempotency.New(c), user, idempotency.Refuse)(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(3 * time.Second) })) // of the bubble's clock
		var requests sync.WaitGroup
		replayed := make([]string, 2)
		for i := range replayed {
			requests.Go(func() {
				rec, req := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil)
				req.Header.Set("Idempotency-Key", "order-1")
				h.ServeHTTP(rec, req)
				replayed[i] = rec.Header().Get("Idempotent-Replayed")
			})
		}
		requests.Wait()
		if got := log.String(); strings.Contains(got, "its own process holds") {
			t.Errorf("logged: %s", got)
		}
		if got := replayed[0] + replayed[1]; got != "true" {
			t.Errorf("not one of the requests waited for the answer of the other: %q", replayed)
		}
	})
}

// The holder is another request, so the hint that a call may wait for itself would be wrong.
func TestAWaitForAnotherRequestIsNotReportedAsASelfWait(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var log usertest.Output
		c := usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		h := httpmw.WithLock(c, httpmw.Const("user", "7"), lockmw.WithWait(2*time.Second))(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(3 * time.Second) })) // of the bubble's clock
		var requests sync.WaitGroup
		bodies := make([]string, 2)
		for i := range bodies {
			requests.Go(func() {
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", nil))
				bodies[i] = rec.Body.String()
			})
		}
		requests.Wait()
		if got := log.String(); strings.Contains(got, "its own process holds") {
			t.Errorf("logged: %s", got)
		}
		if got := bodies[0] + bodies[1]; !strings.Contains(got, "problem") && !strings.Contains(got, "busy") {
			t.Errorf("no request was refused: %q", got)
		}
	})
}
