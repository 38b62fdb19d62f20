package httpmw_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// lose expires the lock of user42, and returns when the context of its holder has ended.
func lose(local *lockmw.Local, r *http.Request) {
	local.Expire("user:42")
	<-r.Context().Done()
}

// A context keeps its first cause.
func TestALossAfterTheDeadlineIsALoss(t *testing.T) {
	usertest.DefaultLog(t)
	local := lockmw.NewLocal()
	ctx, cancel := context.WithCancel(t.Context())
	h := httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		local.Expire("user:42")
		w.WriteHeader(http.StatusCreated)
	}))
	rec := serve(h, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if p := readProblem(t, rec); p.Status != 500 || p.Type != "lock-lost" {
		t.Errorf("got %+v, want 500 lock-lost", p)
	}
}

// The outer lock was taken by middleware that does not withhold responses.
func TestASuccessDoesNotGetThroughAfterTheLossOfAnOuterLock(t *testing.T) {
	usertest.DefaultLog(t)
	for name, answer := range map[string]http.Handler{"a status": ok, "nothing": quiet} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			inner := httpmw.WithLock(local, header("From"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				lose(local, r)
				answer.ServeHTTP(w, r)
			}))
			r := transfer("1", "2")
			ctx, outer, err := local.Lock(r.Context(), "user:42")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = outer.Unlock() }()
			if p := readProblem(t, serve(inner, r.WithContext(ctx))); p.Status != 500 || p.Type != "lock-lost" {
				t.Errorf("got %+v, want 500 lock-lost", p)
			}
		})
	}
}

func TestHeadersOfAWithheldResponseAreRemoved(t *testing.T) {
	usertest.DefaultLog(t)
	local := lockmw.NewLocal()
	locked := httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/orders/1")
		http.SetCookie(w, &http.Cookie{Name: "order", Value: "1"})
		lose(local, r)
	}))
	rec := post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "7")
		w.Header().Set("Set-Cookie", "session=1")
		locked.ServeHTTP(w, r)
	}), "/")
	readProblem(t, rec)
	for name, want := range map[string][]string{"Location": nil, "X-Request-Id": {"7"}, "Set-Cookie": {"session=1"}} {
		if got := rec.Header()[name]; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
