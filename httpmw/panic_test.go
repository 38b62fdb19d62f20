package httpmw_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// panicLog is a log entry of chi that receives the panics that Recoverer logs.
type panicLog struct{ values chan any }

func (l panicLog) NewLogEntry(*http.Request) middleware.LogEntry { return l }
func (l panicLog) Panic(v any, _ []byte)                         { l.values <- v }

func (l panicLog) Write(int, int, http.Header, time.Duration, any) {}

func TestAPanicPassesTheLockOnItsWayToRecoverer(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			local := lockmw.NewLocal()
			panics := make(chan any, 10)
			bug := errors.New("a bug")
			free := func(h http.Handler) http.Handler { // checks that the lock is free when the panic reaches Recoverer
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer func() {
						if !usertest.IsFree(local, "user:secret-42") {
							t.Error("the panic has passed the lock before it was released")
						}
					}()
					h.ServeHTTP(w, r)
				})
			}
			r := chi.NewRouter()
			r.Use(middleware.RequestLogger(panicLog{panics}), middleware.Recoverer, free, httpmw.WithLock(local, secretUser))
			r.Get("/bug", func(http.ResponseWriter, *http.Request) { panic(bug) })
			r.Get("/begun", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			r.Get("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			r.Get("/nil", func(http.ResponseWriter, *http.Request) { panic(nil) }) //nolint:govet // under test
			site := webtest.NewSite(t, r, edit)

			if a := site.Get(t, "/bug"); a.Status != http.StatusInternalServerError || a.Body != "" {
				t.Errorf("status %d, body %q; want Recoverer's 500", a.Status, a.Body)
			}
			if got := usertest.Receive(t, "Recoverer's log", panics); got != bug {
				t.Errorf("Recoverer has got %v", got)
			}
			if a := site.Get(t, "/nil"); a.Status != http.StatusInternalServerError || a.Body != "" {
				t.Errorf("panic(nil): status %d, body %q; want Recoverer's 500", a.Status, a.Body)
			}
			if got, isNil := usertest.Receive(t, "Recoverer's log", panics).(error); !isNil {
				t.Errorf("Recoverer has got %v", got)
			}
			for _, path := range []string{"/begun", "/abort"} {
				resp, err := site.Send(t.Context(), http.MethodGet, path, nil)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				if err == nil {
					t.Errorf("%s: the client did not see that the answer was aborted", path)
				}
			}
			if len(panics) > 0 {
				t.Errorf("an aborted answer was logged as %v", <-panics)
			}
		})
	}
}
