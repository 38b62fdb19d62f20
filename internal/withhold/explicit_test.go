package withhold_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/internal/withhold"
)

func TestEmptyWritesDoNotBeginAnExplicitWriter(t *testing.T) {
	for what, begin := range map[string]struct {
		says   func(http.ResponseWriter)
		status int // 0: the response has not begun
		body   string
	}{
		"nothing":                   {func(http.ResponseWriter) {}, 0, ""},
		"a hint":                    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 0, ""},
		"a flush":                   {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 0, ""},
		"a flush by the controller": {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 0, ""},
		"no bytes":                  {func(w http.ResponseWriter) { _, _ = w.Write(nil) }, 0, ""},
		"an empty string":           {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "") }, 0, ""},
		"an empty copy":             {func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(strings.NewReader(""), 1)) }, 0, ""},
		"a status":                  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusLocked) }, 423, ""},
		"a body":                    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "busy") }, 200, "busy"},
		"a status and a flush": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusLocked)
			_ = http.NewResponseController(w).Flush()
		}, 423, ""},
		"a connection taken over": {func(w http.ResponseWriter) {
			takeOver(t, w, "423 Locked\r\nContent-Length: 0\r\n\r\n")
		}, 423, ""},
	} {
		t.Run(what, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, on string, serve func(http.Handler) *webtest.Site) {
				if on == "HTTP2" && what == "a connection taken over" {
					t.Skip("other responses share the connection")
				}
				a := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					explicit := withhold.NewExplicit(w)
					if begin.says(explicit); explicit.Begun() != (begin.status != 0) {
						t.Errorf("begun: %t", explicit.Begun())
					}
					if !explicit.Begun() {
						answerVoid(explicit)
					}
				})).Request(t, http.MethodPost, "/")
				if begin.status == 0 {
					wantVoid(t, a)
				} else {
					wantAnswer(t, a, begin.status, begin.body)
				}
			})
		})
	}
}
