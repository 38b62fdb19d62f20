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

// refusedRequests returns what is logged when each kind of lock, over a Redis that refuses, is wanted by some
// requests.
func refusedRequests(t *testing.T, requests int, opts func(*slog.Logger) []lockmw.ClientOption) (lines []line) {
	for kind, of := range kinds {
		j := newJournal(t)
		logger := slog.New(slog.NewJSONHandler(&j.Output, nil))
		server := redistest.Mini(t)
		c := usertest.Client(t, server, opts(logger)...)
		server.Mini.SetError("NOPERM this user has no permissions")
		h := httpmw.WithLock(of(c), httpmw.By("user", func(*http.Request) (string, error) { return "42", nil }))(http.NotFoundHandler())
		for range requests {
			rec := httptest.NewRecorder()
			if h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil)); rec.Code != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d, want 503", kind, rec.Code)
			}
		}
		server.Mini.SetError("")
		if got := j.lines(); len(got) != 1 {
			t.Errorf("%s: %d refused requests have %d lines, want one: %v", kind, requests, len(got), got)
		} else {
			lines = append(lines, got[0])
		}
	}
	return lines
}

func TestARefusedRequestHasOneLineInTheLogOfTheClient(t *testing.T) {
	for _, l := range refusedRequests(t, 3, func(logger *slog.Logger) []lockmw.ClientOption {
		return []lockmw.ClientOption{lockmw.WithLogger(logger)}
	}) {
		if l.message() != "httpmw: a request was refused because its lock is unavailable" {
			t.Errorf("got %v", l)
		}
	}
}

func TestARefusedRequestHasOneLineWithAnObserverToo(t *testing.T) {
	for _, l := range refusedRequests(t, 3, func(logger *slog.Logger) []lockmw.ClientOption {
		return []lockmw.ClientOption{lockmw.WithLogger(logger), lockmw.WithObserver(locklog.New(logger))}
	}) {
		if l.message() != failed {
			t.Errorf("got %v", l)
		}
	}
}

// An observer that may not write warnings leaves the line to the middleware.
func TestARefusedRequestHasOneLineWithAnObserverThatIsSilent(t *testing.T) {
	for _, l := range refusedRequests(t, 1, func(logger *slog.Logger) []lockmw.ClientOption {
		errorsOnly := slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})) //nolint:sloglint // errors are to be written
		return []lockmw.ClientOption{lockmw.WithLogger(logger), lockmw.WithObserver(locklog.New(errorsOnly))}
	}) {
		if l.message() == failed {
			t.Errorf("got %v", l)
		}
	}
}
