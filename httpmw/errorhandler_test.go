package httpmw_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestTheErrorHandlerReceivesTheErrorOfTheKeyFunction(t *testing.T) {
	cause := errors.New("no such user")
	var got error
	h := httpmw.WithLock(lockmw.NewLocal(), func(*http.Request) (string, error) { return "", cause },
		httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) { got = err }))(never(t))
	post(h, "/")
	if e, ok := errors.AsType[*lockmw.Error](got); !ok || e.Op != "key" || !errors.Is(got, cause) {
		t.Errorf("got %v", got)
	}
}

// Package withhold tests all ways to send nothing, and to send something.
func TestAnErrorHandlerThatSendsNothingGetsTheDefaultResponse(t *testing.T) {
	usertest.DefaultLog(t)
	lost := lockmw.NewLocal()
	silent := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) { w.(http.Flusher).Flush() })
	if p := readProblem(t, post(httpmw.WithLock(failing(lockmw.ErrBusy), user42, silent)(never(t)), "/")); p.Type != "lock-busy" {
		t.Errorf("refused: %+v", p)
	}
	loses := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { lose(lost, r) })
	if p := readProblem(t, post(httpmw.WithLock(lost, user42, silent)(loses), "/")); p.Type != "lock-lost" {
		t.Errorf("lost: %+v", p)
	}
}

func TestAnErrorHandlerFlushesItsResponse(t *testing.T) {
	handler := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) {
		http.Error(w, "busy", http.StatusLocked)
		w.(http.Flusher).Flush()
	})
	if rec := post(httpmw.WithLock(failing(lockmw.ErrBusy), user42, handler)(never(t)), "/"); rec.Code != http.StatusLocked || !rec.Flushed {
		t.Errorf("status %d, flushed: %t", rec.Code, rec.Flushed)
	}
}

// An error handler decides about its own response, also after a loss.
func TestAnErrorHandlerMayAnswerWithASuccess(t *testing.T) {
	usertest.DefaultLog(t)
	local := lockmw.NewLocal()
	accepted := httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, _ error) {
		if err := r.Context().Err(); err != nil {
			t.Errorf("its context has ended: %v", err)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	rec := post(httpmw.WithLock(local, user42, accepted)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { lose(local, r) })), "/")
	if rec.Code != http.StatusAccepted || rec.Body.Len() > 0 {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
}
