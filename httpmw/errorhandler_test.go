package httpmw_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
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

func TestAnErrorHandlerOfIdempotentGetsTheRunInQuestion(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(t.Context())
	for name, tt := range map[string]struct {
		ctx     context.Context // of the first request
		handler http.HandlerFunc
		want    error
	}{
		"silence":       {ended, func(_ http.ResponseWriter, r *http.Request) { cancel(errors.New("a timeout")); <-r.Context().Done() }, idempotency.ErrNotRecorded},
		"a long answer": {t.Context(), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) }, idempotency.ErrDone},
	} {
		t.Run(name, func(t *testing.T) {
			var got *idempotency.Error
			id := ""
			h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
				run, _ := idempotency.FromContext(r.Context())
				id = run.ID()
				tt.handler(w, r)
			}, httpmw.WithErrorHandler(func(_ http.ResponseWriter, _ *http.Request, err error) {
				if e, ok := errors.AsType[*idempotency.Error](err); ok && errors.Is(err, tt.want) {
					got = e
				}
			}))
			serve(h, keyed("k-1", "").WithContext(tt.ctx))
			serve(h, keyed("k-1", ""))
			if got == nil || got.Unfinished == nil || got.Unfinished.Run != id || got.Unfinished.Key.ID != "k-1" {
				t.Errorf("got %+v, want the run %s", got, id)
			}
		})
	}
}
