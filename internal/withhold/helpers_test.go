package withhold_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/internal/withhold"
)

var errVoid = errors.New("void")

// isVoid is the argument void of Wrap.
func isVoid(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// noGate is the gate of a response whose writes nobody watches.
type noGate struct{}

func (noGate) BeginWrite() {}
func (noGate) EndWrite()   {}
func (noGate) Close()      {}

// A handler works, and may find that its work is void.
type handler func(w http.ResponseWriter, r *http.Request, void func())

// guard answers for a handler whose work is void, as a middleware does.
func guard(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		wrapped, response := withhold.Wrap(ctx, w, isVoid, noGate{})
		h(wrapped, r.WithContext(ctx), func() { cancel(errVoid) })
		if isVoid(ctx) != nil && !response.Begun() {
			response.Withdraw(w.Header())
			answerVoid(w)
		}
	})
}

// answerVoid is the answer for void work.
func answerVoid(w http.ResponseWriter) {
	w.Header().Set("X-Void", "yes")
	http.Error(w, "void", http.StatusInternalServerError)
}

// wantVoid checks that the handler's response was withheld.
func wantVoid(t testing.TB, a webtest.Answer) {
	t.Helper()
	if a.Status != http.StatusInternalServerError || a.Body != "void\n" || a.Header.Get("X-Void") == "" {
		t.Errorf("status %d, body %q; want the answer for void work", a.Status, a.Body)
	}
}

// wantAnswer checks the handler's response.
func wantAnswer(t testing.TB, a webtest.Answer, status int, body string) {
	t.Helper()
	if a.Status != status || a.Body != body || a.Header.Get("X-Void") != "" {
		t.Errorf("status %d, body %q; want %d, %q", a.Status, a.Body, status, body)
	}
}

// onEachServer runs a test with each kind of writer that a middleware receives, whose name is on.
func onEachServer(t *testing.T, test func(t *testing.T, on string, serve func(http.Handler) *webtest.Site)) {
	t.Helper()
	for on, server := range webtest.Servers {
		t.Run(on, func(t *testing.T) {
			test(t, on, func(h http.Handler) *webtest.Site {
				return webtest.NewSite(t, server.Around(h), server.Protocol)
			})
		})
	}
}

// takeOver takes the connection of w over, and sends a response on it.
func takeOver(t testing.TB, w http.ResponseWriter, response string) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, err = io.WriteString(conn, "HTTP/1.1 "+response)
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Error(err)
	}
}
