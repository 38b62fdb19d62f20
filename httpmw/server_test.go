package httpmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// secretUser is a key that no answer may show.
var secretUser = httpmw.By("user", func(*http.Request) (string, error) { return "secret-42", nil })

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		failedOpen := make(chan lockmw.Acquisition, 10)
		observed := lockmw.WithObserver(&lockmw.Observer{
			Acquired: func(ctx context.Context, _ lockmw.Attempt, g lockmw.Acquisition) context.Context {
				failedOpen <- g
				return ctx
			},
		})
		locks := usertest.ClientOf(t, s.NewClient(t, impatient), observed)
		r := chi.NewRouter()
		r.With(httpmw.WithLock(locks, secretUser)).Handle("/closed", never(t))
		r.With(httpmw.WithLockAll(locks, httpmw.All(secretUser))).Handle("/closed/all", never(t))
		open := httpmw.WithLock(locks, secretUser, lockmw.WithFailOpen(), lockmw.WithWait(time.Second))
		r.With(open).Handle("/open", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hold, err := lockmw.Held(r.Context(), "user:secret-42")
			if err != nil || hold.Token() != 0 {
				t.Errorf("%v: a hold with token %d, want 0", err, hold.Token())
			}
			w.WriteHeader(http.StatusCreated)
		}))
		site := webtest.NewSite(t, r)
		if s.Mini != nil {
			s.Mini.Close()
		} else {
			s.Kill()
		}

		wantProblem(t, site.Get(t, "/closed"), 503, "lock-unavailable", true)
		wantProblem(t, site.Request(t, http.MethodPost, "/closed/all"), 503, "lock-unavailable", true)
		if len(failedOpen) > 0 {
			t.Error("a request that had to fail closed was handled")
		}
		for range 3 {
			if a := site.Get(t, "/open"); a.Status != http.StatusCreated {
				t.Errorf("status %d, want that of the handler: %s", a.Status, a.Body)
			}
			select {
			case g := <-failedOpen:
				if !errors.Is(g.FailedOpen, lockmw.ErrUnavailable) || g.Hold.Token() != 0 {
					t.Errorf("the observer saw %v with token %d", g.FailedOpen, g.Hold.Token())
				}
			default:
				t.Error("the observer was not called")
			}
		}
	})
}

func TestAShutdownOfTheLocksEndsTheWaitsThatTheServerWaitsFor(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		waits := make(chan struct{}, 10)
		locks := usertest.Client(t, s, lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waits <- struct{}{} },
		}))
		mux := http.NewServeMux()
		works := newGate(t)
		mux.Handle("/works", httpmw.WithLock(locks, user42)(works))
		mux.Handle("/waits", httpmw.WithLock(locks, user42, lockmw.WithWait(lockmw.Forever))(never(t)))
		site := webtest.NewSite(t, mux)
		t.Cleanup(works.Open)
		answers := map[string]chan webtest.Answer{"/works": make(chan webtest.Answer, 1), "/waits": make(chan webtest.Answer, 1)}
		request := func(path string) { answers[path] <- site.Request(t, http.MethodPost, path) }
		go request("/works")
		usertest.Receive(t, "a request is handled", works.entered)
		go request("/waits")
		usertest.Receive(t, "a request waits", waits)

		down := make(chan error, 2)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		go func() { down <- site.Config.Shutdown(ctx) }()
		go func() { down <- locks.Shutdown(ctx) }()
		wantProblem(t, usertest.Receive(t, "the wait ends", answers["/waits"]), 503, "lock-unavailable", true)
		works.Open()
		if a := usertest.Receive(t, "the work ends", answers["/works"]); a.Status != http.StatusCreated {
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
		for range cap(down) {
			if err := usertest.Receive(t, "all is down", down); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAResponseMayBeCompleteBeforeTheLockIsReleased(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			rest := newGate(t)
			complete := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "2")
				_, _ = io.WriteString(w, "ok")
				_ = http.NewResponseController(w).Flush()
				rest.entered <- r
				<-rest.opened
			})
			local, mux := lockmw.NewLocal(), http.NewServeMux()
			mux.Handle("/", httpmw.WithLock(local, secretUser)(complete))
			mux.Handle("/patient", httpmw.WithLock(local, secretUser, lockmw.WithWait(patience))(ok))
			site := webtest.NewSite(t, mux, edit)
			t.Cleanup(rest.Open)
			// On the same connection the server reads the next request only after this one has ended.
			resp, err := site.Send(t.Context(), http.MethodPost, "/", nil, "Connection", "close")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, body); err != nil || string(body) != "ok" {
				t.Fatalf("%q, %v", body, err)
			}
			wantProblem(t, site.Request(t, http.MethodPost, "/"), 409, "lock-busy", true)
			patient := make(chan webtest.Answer, 1)
			go func() { patient <- site.Request(t, http.MethodPost, "/patient") }()
			rest.Open()
			if a := usertest.Receive(t, "the patient request", patient); a.Status != http.StatusCreated {
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		})
	}
}
