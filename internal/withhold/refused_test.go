package withhold_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/webtest"
)

func TestASuccessIsRefusedOnceTheWorkIsVoid(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"a status": func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusCreated); return nil },
		"a redirect": func(w http.ResponseWriter, r *http.Request) error {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return nil
		},
		"a status after a hint": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
			return nil
		},
		"a body":   func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("ok")); return err },
		"a string": func(w http.ResponseWriter, _ *http.Request) error { _, err := io.WriteString(w, "ok"); return err },
		"a copy": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.Copy(w, io.LimitReader(strings.NewReader("ok"), 2))
			return err
		},
		"a flush":                   func(w http.ResponseWriter, _ *http.Request) error { return flush(w) },
		"a flush by the controller": func(w http.ResponseWriter, _ *http.Request) error { return http.NewResponseController(w).Flush() },
		"another protocol": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusSwitchingProtocols)
			return nil
		},
		"a connection taken over": func(w http.ResponseWriter, _ *http.Request) error {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return err
		},
		"a status and a body": func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusCreated)
			_, err := io.WriteString(w, "ok")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, on string, serve func(http.Handler) *webtest.Site) {
				if on == "HTTP2" && name == "a connection taken over" {
					t.Skip("other responses share the connection")
				}
				site := serve(guard(func(w http.ResponseWriter, r *http.Request, void func()) {
					void()
					if err := answer(w, r); err != nil != canFail(w, name) || err != nil && !errors.Is(err, errVoid) {
						t.Errorf("the handler's error is %v", err)
					}
				}))
				site.NoRedirects()
				wantVoid(t, site.Request(t, http.MethodPost, "/"))
			})
		})
	}
}

// canFail reports whether the named method of w can return an error.
func canFail(w http.ResponseWriter, name string) bool {
	switch name {
	case "a body", "a string", "a copy", "a status and a body", "a connection taken over":
		return true
	case "a flush by the controller":
		_, flushes := w.(http.Flusher)
		_, with := w.(webtest.FlushErrorer)
		return with || !flushes
	}
	return false
}

// flush flushes w if it is a Flusher.
func flush(w http.ResponseWriter) error {
	if f, can := w.(http.Flusher); can {
		f.Flush()
	}
	return nil
}

func TestTheHandlersOwnErrorIsSent(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"the handler's own error": func(w http.ResponseWriter) { http.Error(w, "gone wrong", http.StatusTeapot) },
		"an error after a success that was refused": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			http.Error(w, "gone wrong", http.StatusTeapot)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, _ string, serve func(http.Handler) *webtest.Site) {
				site := serve(guard(func(w http.ResponseWriter, _ *http.Request, void func()) {
					void()
					answer(w)
				}))
				wantAnswer(t, site.Request(t, http.MethodPost, "/"), http.StatusTeapot, "gone wrong\n")
			})
		})
	}
}

// The first byte of a copy begins a response, and the work may become void before that.
func TestACopyWhoseSourceIsTooSlow(t *testing.T) {
	onEachServer(t, func(t *testing.T, _ string, serve func(http.Handler) *webtest.Site) {
		site := serve(guard(func(w http.ResponseWriter, _ *http.Request, void func()) {
			slow := readerFunc(func(p []byte) (int, error) {
				void()
				return copy(p, "ok"), io.EOF
			})
			if _, err := io.Copy(w, slow); !errors.Is(err, errVoid) {
				t.Errorf("the handler's error is %v", err)
			}
		}))
		wantVoid(t, site.Request(t, http.MethodPost, "/"))
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTheHeaderOfTheResponseThatIsNotSentIsWithdrawn(t *testing.T) {
	gone := []string{
		"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location",
		"Content-Range", "Etag", "Expires", "Last-Modified", "Location", "Refresh", "Retry-After", "Trailer", http.TrailerPrefix + "X-Sum",
		"CDN-Cache-Control", "Surrogate-Control", "X-Accel-Redirect",
	}
	guarded := guard(func(w http.ResponseWriter, _ *http.Request, void func()) {
		for _, name := range gone {
			w.Header()[name] = []string{"x"}
		}
		http.SetCookie(w, &http.Cookie{Name: "order", Value: "1"})
		void()
	})
	kept := map[string]string{
		"X-Request-Id": "7", "Content-Security-Policy": "default-src 'none'", "Vary": "Origin", "Set-Cookie": "session=1",
	}
	rec := httptest.NewRecorder()
	for name, value := range kept {
		rec.Header().Set(name, value)
	}
	guarded.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil))
	for _, name := range gone {
		if values, found := rec.Header()[name]; found {
			t.Errorf("%s: %q", name, values)
		}
	}
	for name, want := range kept {
		if got := rec.Header()[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q: other middleware has set it", name, got, want)
		}
	}
	if rec.Code != http.StatusInternalServerError {
		t.Errorf("status %d", rec.Code)
	}
}
