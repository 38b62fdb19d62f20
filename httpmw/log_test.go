package httpmw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestALossThatTheResponseDoesNotShowIsLogged(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, func()){
		"the response has begun":  func(w http.ResponseWriter, lose func()) { w.WriteHeader(http.StatusOK); lose() },
		"the handler's own error": func(w http.ResponseWriter, lose func()) { lose(); w.WriteHeader(http.StatusTeapot) },
		"a panic":                 func(_ http.ResponseWriter, lose func()) { lose(); panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			log := usertest.DefaultLog(t)
			local := lockmw.NewLocal()
			mux := http.NewServeMux()
			mux.Handle("POST /orders/{id}", httpmw.WithLock(local, user42)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer(w, func() { lose(local, r) })
			})))
			func() {
				defer func() { _ = recover() }()
				post(mux, "/orders/7")
			}()
			for _, want := range []string{"level=WARN", "method=POST", `route="POST /orders/{id}"`, "lock=user", "its lease ran out"} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log does not have %q: %s", want, log)
				}
			}
			if strings.Contains(log.String(), "user:42") || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("want one line without the key: %s", log)
			}
		})
	}
}

func TestARequestWithoutALossLogsNothing(t *testing.T) {
	log := usertest.DefaultLog(t)
	post(httpmw.WithLock(lockmw.NewLocal(), user42)(ok), "/")
	ctx, cancel := context.WithCancel(t.Context())
	serve(httpmw.WithLock(lockmw.NewLocal(), user42)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })),
		httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

func TestAFailedRequestIsLoggedWithItsRoute(t *testing.T) {
	log := usertest.DefaultLog(t)
	local := lockmw.NewLocal()
	mux := http.NewServeMux() // inside the lock: it sets the pattern in a copy of the request
	mux.HandleFunc("POST /orders/{id}", func(_ http.ResponseWriter, r *http.Request) { lose(local, r) })
	post(httpmw.WithLock(local, user42, lockmw.WithName("orders"))(mux), "/orders/7")
	for _, want := range []string{"level=ERROR", "method=POST", `route="POST /orders/{id}"`, "lock=orders", "its lease ran out"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q: %s", want, log)
		}
	}
}

func TestARequestThatIsRefusedBecauseOfRedisIsLoggedWithItsRoute(t *testing.T) {
	log := usertest.DefaultLog(t)
	denied := failing(&lockmw.Error{Op: "lock", Key: secret, Err: fmt.Errorf("%w: NOPERM this user has no permissions", lockmw.ErrUnavailable)})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", httpmw.WithLock(denied, user42)(never(t)))
	post(mux, "/orders/7")
	for _, want := range []string{"level=WARN", "method=POST", `route="POST /orders/{id}"`, "lock=user", "NOPERM"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q: %s", want, log)
		}
	}
	if strings.Contains(log.String(), "secret") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("want one line without the key: %s", log)
	}
}

// The log lines of a request carry its ID.
func TestTheLinesOfARequestHaveItsLabel(t *testing.T) {
	local := lockmw.NewLocal()
	denied := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		policy, err := lockmw.NewPolicy(opts...)
		return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Label: policy.Label, Err: errors.Join(lockmw.ErrUnavailable, err)}
	})
	for name, test := range map[string]struct {
		locks  lockmw.Locker
		handle http.HandlerFunc
	}{
		"refused": {denied, func(http.ResponseWriter, *http.Request) {}},
		"failed":  {local, func(_ http.ResponseWriter, r *http.Request) { lose(local, r) }},
		"lost":    {local, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK); lose(local, r) }},
	} {
		t.Run(name, func(t *testing.T) {
			for id, want := range map[string]string{"req-7": "label=req-7", "": ""} {
				log := usertest.DefaultLog(t)
				h := httpmw.WithLock(test.locks, user42)(test.handle)
				if id != "" {
					h = middleware.RequestID(h)
				}
				req := httptest.NewRequest(http.MethodPost, "/", nil)
				req.Header.Set(middleware.RequestIDHeader, id)
				serve(h, req)
				if line := log.String(); !strings.Contains(line, want) || strings.Contains(line, "label=") != (want != "") || strings.Count(line, "\n") != 1 {
					t.Errorf("with the id %q: %s", id, line)
				}
			}
		})
	}
}

// A person needs the ID of each run for Resolve, however many processes have died together.
func TestARefusalNamesEachRunWithAnUnknownOutcome(t *testing.T) {
	log := usertest.DefaultLog(t)
	h := once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	const runs = 5
	for range 3 { // the first time they run
		for i := range runs {
			serve(h, keyed(fmt.Sprint("k-", i), ""))
		}
	}
	const line = "a request was refused because the outcome of an earlier run is unknown"
	named := make(map[string]bool)
	for text := range strings.Lines(log.String()) {
		if _, rest, found := strings.Cut(text, " run="); found && strings.Contains(text, line) {
			run, _, _ := strings.Cut(rest, " ")
			named[run] = true
		}
	}
	if got := strings.Count(log.String(), line); len(named) != runs || got != runs {
		t.Errorf("%d lines name %d runs, want one for each of %d:\n%s", got, len(named), runs, log)
	}
}
