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

func TestARefusedRequestOverTheWire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		locks, other := usertest.Client(t, s), usertest.Client(t, s)
		usertest.Occupy(t, other, "user:secret-42")
		refused := never(t)
		capped := httpmw.WithLock(locks, secretUser, lockmw.WithWait(patience), lockmw.WithMaxWaiters(1))(refused)
		r := chi.NewRouter()
		r.With(httpmw.WithLock(locks, secretUser)).Handle("/busy", refused)
		r.With(httpmw.WithLock(locks, secretUser, lockmw.WithWait(time.Second))).Handle("/timeout", refused)
		r.Handle("/capped", capped)
		r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.Header("X-Key")))).Handle("/key", refused)
		r.With(authenticate, httpmw.WithLock(locks, httpmw.By("user", httpmw.Claim(userID)))).Handle("/claim", refused)
		r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).Handle("/wiring", refused)
		site := webtest.NewSite(t, r)

		waiting, giveUp := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			resp, err := site.Send(waiting, http.MethodGet, "/capped", nil)
			if err == nil {
				err = errors.Join(resp.Body.Close(), errors.New(resp.Status))
			}
			gone <- err
		}()
		usertest.Eventually(t, "a request waits", patience, func() bool { return queued(t, s, "user:secret-42") == 1 })
		for _, tt := range []struct {
			path   string
			status int
			typ    string
			retry  bool
		}{
			{"/busy", 409, "lock-busy", true},
			{"/timeout", 503, "lock-timeout", true},
			{"/capped", 503, "lock-too-many-waiters", true},
			{"/key", 400, "lock-invalid-key", false},
			{"/claim", 401, "lock-no-claim", false},
			{"/wiring", 500, "about:blank", false},
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				t.Run(method+tt.path, func(t *testing.T) {
					wantProblem(t, site.Request(t, method, tt.path), tt.status, tt.typ, tt.retry)
				})
			}
		}
		giveUp()
		if err := usertest.Receive(t, "the waiting request ends", gone); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiting request was answered: %v", err)
		}
	})
}

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

func TestALockIsLostOverTheWire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		rdb := s.NewClient(t)
		inspector, err := lockmw.NewInspector(rdb)
		if err != nil {
			t.Fatal(err)
		}
		takeAway := func(key string) error {
			status, err := inspector.Get(context.Background(), key)
			if err != nil || len(status.Holders) != 1 {
				return errors.Join(err, errors.New("not one holder"))
			}
			return inspector.ForceUnlock(context.Background(), key, status.Holders[0])
		}
		for how, tt := range map[string]struct {
			opt  lockmw.Option
			lose func(key string) error
		}{
			"its lease expires":          {lockmw.WithFixedLease(time.Second), func(string) error { return nil }},
			"its maximum hold has ended": {lockmw.WithMaxHold(500 * time.Millisecond), func(string) error { return nil }},
			"an operator takes it away":  {lockmw.WithLease(2 * time.Second), takeAway},
			"it is deleted in Redis": {lockmw.WithLease(2 * time.Second), func(key string) error {
				return rdb.Del(context.Background(), "lockmw:{"+key+"}").Err()
			}},
		} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				losses := make(chan error, 10)
				locks := usertest.Client(t, s, lockmw.WithObserver(&lockmw.Observer{
					Lost: func(_ context.Context, _ lockmw.Attempt, err error) { losses <- err },
				}))
				untilLost := func(before, after func(http.ResponseWriter)) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						before(w)
						hold, _ := lockmw.FromContext(r.Context())
						if err := tt.lose(hold.Key()); err != nil {
							t.Error(err)
						}
						<-r.Context().Done()
						if cause := context.Cause(r.Context()); !errors.Is(cause, lockmw.ErrLost) {
							t.Errorf("cause %v, want ErrLost", cause)
						}
						after(w)
					})
				}
				nothing := func(http.ResponseWriter) {}
				created := func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) }
				body := func(w http.ResponseWriter) { _, _ = io.WriteString(w, "done") }
				r := chi.NewRouter()
				r.Use(httpmw.WithLock(locks, httpmw.By("user", func(r *http.Request) (string, error) {
					return how + r.URL.Path, nil
				}), tt.opt))
				r.Handle("/nothing", untilLost(nothing, nothing))
				r.Handle("/before", untilLost(body, nothing))
				r.Handle("/after", untilLost(nothing, created))
				r.Handle("/fails", untilLost(nothing, func(w http.ResponseWriter) { http.Error(w, "late", http.StatusTeapot) }))
				r.Handle("/both", untilLost(created, body))
				site := webtest.NewSite(t, r)
				for _, path := range []string{"/nothing", "/after"} {
					wantProblem(t, site.Get(t, path), 500, "lock-lost", false)
				}
				for path, want := range map[string]webtest.Answer{
					"/before": {Status: 200, Body: "done"},
					"/both":   {Status: 201, Body: "done"},
					"/fails":  {Status: 418, Body: "late\n"},
				} {
					if a := site.Get(t, path); a.Status != want.Status || a.Body != want.Body {
						t.Errorf("%s: status %d, body %q; want %d, %q", path, a.Status, a.Body, want.Status, want.Body)
					}
				}
				for range 5 {
					if err := usertest.Receive(t, "the observer is called", losses); !errors.Is(err, lockmw.ErrLost) {
						t.Errorf("the observer saw %v, want ErrLost", err)
					}
				}
			})
		}
	})
}
