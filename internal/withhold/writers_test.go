package withhold_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/internal/withhold"
)

func TestTheResponseWriterKeepsItsMethods(t *testing.T) {
	type bare struct{ http.ResponseWriter }
	check := func(w http.ResponseWriter, want bool) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		_, readerFrom := w.(io.ReaderFrom)
		_, stringWriter := w.(io.StringWriter)
		if flusher != want || hijacker != want || readerFrom != want || stringWriter != want {
			t.Errorf("Flusher %t, Hijacker %t, ReaderFrom %t, StringWriter %t; want %t", flusher, hijacker, readerFrom, stringWriter, want)
		}
	}
	full := guard(func(w http.ResponseWriter, _ *http.Request, _ func()) { check(w, true) })
	plain := guard(func(w http.ResponseWriter, _ *http.Request, _ func()) { check(w, false) })
	webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		full.ServeHTTP(w, r)
		plain.ServeHTTP(bare{w}, r)
	})).Get(t, "/")
}

// The writers of net/http are recognised, so that their methods need not be looked up one by one.
func TestTheWritersOfTheServerAreKnown(t *testing.T) {
	for protocol, want := range map[string]string{"HTTP1": "*withhold.http1Writer", "HTTP2": "*withhold.http2Writer"} {
		var own http.ResponseWriter
		guarded := guard(func(w http.ResponseWriter, r *http.Request, _ func()) {
			if got := fmt.Sprintf("%T", w); got != want {
				t.Errorf("%s: %s, want %s", r.Proto, got, want)
			}
			if inner, wraps := w.(interface{ Unwrap() http.ResponseWriter }); !wraps || inner.Unwrap() != own {
				t.Errorf("%s: the server's own writer cannot be reached", r.Proto)
			}
			if _, pushes := w.(http.Pusher); pushes != (r.ProtoMajor == 2) {
				t.Errorf("%s: a Pusher: %t", r.Proto, pushes)
			}
			if _, hijacks := w.(http.Hijacker); hijacks != (r.ProtoMajor == 1) {
				t.Errorf("%s: a Hijacker: %t", r.Proto, hijacks)
			}
		})
		webtest.NewSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			own = w
			guarded.ServeHTTP(w, r)
		}), webtest.Protocols[protocol]).Get(t, "/")
	}
}

func TestTheResponseControllerWorks(t *testing.T) {
	for name, around := range map[string]func(http.Handler) http.Handler{
		"directly":          webtest.Directly,
		"behind a log":      webtest.BehindLog,
		"behind a recorder": webtest.BehindRecorder,
		"behind Compress":   middleware.Compress(5),
		"behind another": func(h http.Handler) http.Handler {
			return guard(func(w http.ResponseWriter, r *http.Request, _ func()) { h.ServeHTTP(w, r) })
		},
	} {
		for protocol, edit := range webtest.Protocols {
			t.Run(name+" "+protocol, func(t *testing.T) { tryController(t, around, edit) })
		}
	}
}

func tryController(t *testing.T, around func(http.Handler) http.Handler, protocol func(*httptest.Server)) {
	site := webtest.NewSite(t, around(guard(func(w http.ResponseWriter, r *http.Request, _ func()) {
		c := http.NewResponseController(w)
		deadline := time.Now().Add(time.Minute)
		if err := errors.Join(c.EnableFullDuplex(), c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline)); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "ready\n")
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		_, err := io.Copy(w, r.Body) // an echo of data that the client has not sent yet
		if err = errors.Join(err, c.Flush()); err != nil {
			t.Error(err)
		}
		_ = c.SetWriteDeadline(time.Now().Add(-time.Second))
		_, err = w.Write(make([]byte, 1<<16))
		if err = errors.Join(err, c.Flush()); err == nil {
			t.Error("written after the deadline")
		}
	})), protocol)
	body, sent := io.Pipe()
	t.Cleanup(func() { _ = sent.Close() })
	resp, err := site.Send(t.Context(), http.MethodPost, "/", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := bufio.NewReader(resp.Body)
	if line, err := answer.ReadString('\n'); line != "ready\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	go func() {
		_, _ = io.WriteString(sent, "hello\n")
		_ = sent.Close()
	}()
	if rest, err := io.ReadAll(answer); err == nil || !strings.HasPrefix(string(rest), "hello\n") {
		t.Errorf("%.20q, %v; want the echo and, because of the deadline, an error", rest, err)
	}
}

// A spy records what its writer reads from.
type spy struct {
	webtest.HTTP1Writer
	from io.Reader
}

func (s *spy) ReadFrom(src io.Reader) (int64, error) {
	s.from = src
	return s.HTTP1Writer.ReadFrom(src)
}

func TestSendfileRemainsPossible(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<14)
	path := filepath.Join(t.TempDir(), "file.bin")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &spy{HTTP1Writer: webtest.HTTP1Writer{ResponseRecorder: httptest.NewRecorder()}}
	guard(func(w http.ResponseWriter, r *http.Request, _ func()) {
		http.ServeFile(w, r, path)
	}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	limited, _ := w.from.(*io.LimitedReader)
	if limited == nil {
		t.Fatalf("read from a %T, want a LimitedReader", w.from)
	}
	if _, isFile := limited.R.(*os.File); !isFile || w.Body.String() != content {
		t.Errorf("read %d bytes from a %T, want the file", w.Body.Len(), limited.R)
	}
}

func TestTheWritersOfTheServerCostOneAllocation(t *testing.T) {
	w, ctx := webtest.HTTP1Writer{ResponseRecorder: httptest.NewRecorder()}, t.Context()
	var own http.ResponseWriter = w
	if got := testing.AllocsPerRun(100, func() { withhold.Wrap(ctx, own, isVoid, noGate{}) }); got > 1 {
		t.Errorf("%v allocations", got)
	}
}
