package httpmw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// user42 is the key function of requests for one user.
var user42 = httpmw.By("user", func(*http.Request) (string, error) { return "42", nil })

// failing is a Locker that always fails with err.
func failing(err error) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, err
	})
}

// recording is a Locker that notes the keys of calls before it passes them on to l.
func recording(l lockmw.Locker, keys *[]string) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		*keys = append(*keys, key)
		return l.Lock(ctx, key, opts...)
	})
}

func post(h http.Handler, target string) *httptest.ResponseRecorder {
	return serve(h, httptest.NewRequest(http.MethodPost, target, nil))
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })

// never fails the test if a request reaches it.
func never(t *testing.T) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
}

// A problem is an error response as a client reads it.
type problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

func readProblem(t *testing.T, rec *httptest.ResponseRecorder) problem {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type %q", ct)
	}
	if got := rec.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options %q", got)
	}
	var p problem
	dec := json.NewDecoder(bytes.NewReader(rec.Body.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		t.Fatalf("body %q: %v", rec.Body, err)
	}
	if p.Status != rec.Code || p.Title == "" || p.Detail == "" {
		t.Errorf("incomplete problem for status %d: %+v", rec.Code, p)
	}
	return p
}
