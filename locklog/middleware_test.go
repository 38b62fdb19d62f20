package locklog_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

// Each kind of lock, over a Redis that refuses, is wanted by some requests.
func TestARefusedRequestHasOneLine(t *testing.T) {
	errorsOnly := slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})) //nolint:sloglint // errors are to be written
	for name, tt := range map[string]struct {
		observed func(logger *slog.Logger) *slog.Logger // the logger of an observer; nil: there is none
		requests int
		says     string
	}{
		"in the log of the Client":             {nil, 3, "httpmw: a request was refused because its lock is unavailable"},
		"with an observer":                     {func(logger *slog.Logger) *slog.Logger { return logger }, 3, failed},
		"with one that may not write warnings": {func(*slog.Logger) *slog.Logger { return errorsOnly }, 1, "httpmw: a request was refused because its lock is unavailable"},
	} {
		for kind, of := range kinds {
			t.Run(kind+" "+name, func(t *testing.T) {
				j := newJournal(t)
				logger := slog.New(slog.NewJSONHandler(&j.Output, nil))
				opts := []lockmw.ClientOption{lockmw.WithLogger(logger)}
				if tt.observed != nil {
					opts = append(opts, lockmw.WithObserver(locklog.New(tt.observed(logger))))
				}
				server := redistest.Mini(t)
				c := usertest.Client(t, server, opts...)
				server.Mini.SetError("NOPERM this user has no permissions")
				h := httpmw.WithLock(of(c), httpmw.By("user", func(*http.Request) (string, error) { return "42", nil }))(http.NotFoundHandler())
				for range tt.requests {
					rec := httptest.NewRecorder()
					if h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil)); rec.Code != http.StatusServiceUnavailable {
						t.Errorf("status %d, want 503", rec.Code)
					}
				}
				server.Mini.SetError("")
				j.messages(tt.says)
			})
		}
	}
}
