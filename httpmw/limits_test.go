package httpmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// A handler that hangs must not own a key for ever: its context ends, and the next request gets the
// key, though the handler still runs and answers some day.
func TestAHandlerThatOutlivesTheMaximumHoldIsOvertaken(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		for name, tt := range map[string]struct {
			answers func(http.ResponseWriter)
			status  int
			body    string // "": a problem
		}{
			"it fails late":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot); _, _ = io.WriteString(w, "late") }, 418, "late"},
			"it succeeds late":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, 500, ""},
			"it does not answer": {func(http.ResponseWriter) {}, 500, ""},
		} {
			for protocol, edit := range webtest.Protocols {
				t.Run(name+" "+protocol, func(t *testing.T) {
					t.Parallel()
					locks := usertest.Client(t, s)
					hangs := newGate(t)
					key := httpmw.By("user", func(*http.Request) (string, error) { return t.Name(), nil })
					mw := httpmw.WithLock(locks, key, lockmw.WithMaxHold(500*time.Millisecond), lockmw.WithWait(patience))
					mux := http.NewServeMux()
					causes := make(chan error, 1)
					mux.Handle("/hangs", mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						hangs.entered <- r
						<-r.Context().Done()
						causes <- context.Cause(r.Context())
						<-hangs.opened
						tt.answers(w)
					})))
					mux.Handle("/next", httpmw.WithLock(locks, key, lockmw.WithWait(patience))(ok))
					site := webtest.NewSite(t, mux, edit)
					t.Cleanup(hangs.Open)

					first := make(chan webtest.Answer, 1)
					go func() { first <- site.Request(t, http.MethodPost, "/hangs") }()
					usertest.Receive(t, "the handler runs", hangs.entered)
					if a := site.Request(t, http.MethodPost, "/next"); a.Status != http.StatusCreated {
						t.Errorf("the next request: status %d: %s", a.Status, a.Body)
					}
					if cause := usertest.Receive(t, "the handler's context ends", causes); !errors.Is(cause, lockmw.ErrLost) {
						t.Errorf("cause %v, want ErrLost", cause)
					}
					hangs.Open()
					a := usertest.Receive(t, "the handler returns", first)
					if tt.body == "" {
						wantProblem(t, a, tt.status, "lock-lost", false)
					} else if a.Status != tt.status || a.Body != tt.body {
						t.Errorf("status %d, body %q; want %d, %q", a.Status, a.Body, tt.status, tt.body)
					}
				})
			}
		}
	})
}

func TestASecondClickWithinTheMinimumHoldIsRefused(t *testing.T) {
	t.Parallel()
	least := 1500 * time.Millisecond
	if suite.Full() {
		least = 6 * time.Second // in which a busy machine answers three clicks
	}
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		// The other click may well arrive at another process.
		mux := http.NewServeMux()
		for path, locks := range map[string]*lockmw.Client{"/one": usertest.Client(t, s), "/two": usertest.Client(t, s)} {
			mux.Handle(path, httpmw.WithLock(locks, secretUser, lockmw.WithMinHold(least))(ok))
		}
		site := webtest.NewSite(t, mux)
		start := time.Now()
		if a := site.Request(t, http.MethodPost, "/one"); a.Status != http.StatusCreated {
			t.Fatalf("the first click: status %d: %s", a.Status, a.Body)
		}
		if took := time.Since(start); took >= least {
			t.Errorf("the first click was answered after %v: it paid for the second", took)
		}
		for _, path := range []string{"/one", "/two"} {
			wantProblem(t, site.Request(t, http.MethodPost, path), 409, "lock-busy", true)
		}
		usertest.Eventually(t, "the key is free", patience, func() bool {
			return site.Request(t, http.MethodPost, "/two").Status == http.StatusCreated
		})
		if took := time.Since(start); took < least*9/10 {
			t.Errorf("free again after %v, want %v", took, least)
		}
	})
}
