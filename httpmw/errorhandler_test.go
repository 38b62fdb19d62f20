package httpmw_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

func TestTheErrorHandlerReplacesTheResponse(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	locked := httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, lockmw.ErrBusy) {
			w.WriteHeader(http.StatusLocked)
			return
		}
		httpmw.WriteError(w, r, err)
	})
	if rec := post(httpmw.WithLock(local, user42, locked)(never(t)), "/"); rec.Code != http.StatusLocked {
		t.Errorf("status %d, want 423", rec.Code)
	}
	if rec := post(httpmw.WithLock(failing(lockmw.ErrUnavailable), user42, locked)(never(t)), "/"); rec.Code != 503 {
		t.Errorf("status %d, want 503", rec.Code)
	}
}

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

func TestAnErrorHandlerThatSendsNothingGetsTheDefaultResponse(t *testing.T) {
	usertest.DefaultLog(t)
	for what, says := range map[string]func(http.ResponseWriter){
		"nothing":                   func(http.ResponseWriter) {},
		"a hint":                    func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
		"a flush":                   func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"a flush by the controller": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"no bytes":                  func(w http.ResponseWriter) { _, _ = w.Write(nil) },
		"an empty string":           func(w http.ResponseWriter) { _, _ = io.WriteString(w, "") },
		"an empty copy":             func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(strings.NewReader(""), 1)) },
	} {
		for on, server := range webtest.Servers {
			t.Run(what+" "+on, func(t *testing.T) {
				lost := lockmw.NewLocal()
				handler := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) { says(w) })
				mux := http.NewServeMux()
				mux.Handle("/refused", httpmw.WithLock(failing(lockmw.ErrBusy), user42, handler)(never(t)))
				mux.Handle("/lost", httpmw.WithLock(lost, user42, handler)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { lose(lost, r) })))
				site := webtest.NewSite(t, server.Around(mux), server.Protocol)
				wantProblem(t, site.Get(t, "/refused"), 409, "lock-busy", true)
				wantProblem(t, site.Get(t, "/lost"), 500, "lock-lost", false)
			})
		}
	}
}

func TestTheResponseOfAnErrorHandlerIsSent(t *testing.T) {
	for what, tt := range map[string]struct {
		says   func(http.ResponseWriter)
		status int
		body   string
	}{
		"a status": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusLocked) }, 423, ""},
		"a body":   {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "busy") }, 200, "busy"},
		"a status, late": {func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(nil)
			http.Error(w, "busy", http.StatusLocked)
		}, 423, "busy\n"},
		"a status and a flush": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusLocked)
			_ = http.NewResponseController(w).Flush()
		}, 423, ""},
		"a status and no bytes": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusLocked); _, _ = w.Write(nil) }, 423, ""},
		"a connection taken over": {func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, err = io.WriteString(conn, "HTTP/1.1 423 Locked\r\nContent-Length: 0\r\n\r\n")
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}, 423, ""},
	} {
		for on, server := range webtest.Servers {
			if on == "HTTP2" && what == "a connection taken over" {
				continue
			}
			t.Run(what+" "+on, func(t *testing.T) {
				handler := httpmw.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) {
					err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
					if wraps := on != "behind a stranger"; wraps != (err == nil) {
						t.Errorf("a deadline: %v", err)
					}
					tt.says(w)
				})
				site := webtest.NewSite(t, server.Around(httpmw.WithLock(failing(lockmw.ErrBusy), user42, handler)(never(t))), server.Protocol)
				if a := site.Get(t, "/"); a.Status != tt.status || a.Body != tt.body {
					t.Errorf("status %d, body %q; want %d, %q", a.Status, a.Body, tt.status, tt.body)
				}
			})
		}
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
