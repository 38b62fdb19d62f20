package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

func TestALossThatTheClientIsNotToldOfIsLogged(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, func()){
		"after the beginning":     func(w http.ResponseWriter, lose func()) { w.WriteHeader(http.StatusOK); lose() },
		"the handler's own error": func(w http.ResponseWriter, lose func()) { lose(); w.WriteHeader(http.StatusTeapot) },
		"a panic":                 func(_ http.ResponseWriter, lose func()) { lose(); panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			log := captureLog(t)
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

func TestNoLossNothingLogged(t *testing.T) {
	log := captureLog(t)
	post(httpmw.WithLock(lockmw.NewLocal(), user42)(ok), "/")
	ctx, cancel := context.WithCancel(t.Context())
	serve(httpmw.WithLock(lockmw.NewLocal(), user42)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })),
		httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

func TestAFailedRequestIsLoggedWithItsRoute(t *testing.T) {
	log := captureLog(t)
	local := lockmw.NewLocal()
	mux := http.NewServeMux() // inside of the lock: the pattern is found with a copy of the request
	mux.HandleFunc("POST /orders/{id}", func(_ http.ResponseWriter, r *http.Request) { lose(local, r) })
	post(httpmw.WithLock(local, user42, lockmw.WithName("orders"))(mux), "/orders/7")
	for _, want := range []string{"level=ERROR", "method=POST", `route="POST /orders/{id}"`, "lock=orders", "its lease ran out"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q: %s", want, log)
		}
	}
}

func TestARequestThatIsRefusedBecauseOfRedisIsLoggedWithItsRoute(t *testing.T) {
	log := captureLog(t)
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
