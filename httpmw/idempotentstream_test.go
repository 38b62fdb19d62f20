package httpmw_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

func isIdemError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

func oldKeys(idempotency.Key) (time.Time, bool) { return time.Now().Add(-48 * time.Hour), true }

// A sender is a handler's way to its client, for the tests of what leaves when.
type sender struct {
	http.ResponseWriter
	begun atomic.Bool
}

func (s *sender) WriteHeader(code int) {
	s.begun.Store(s.begun.Load() || code >= 200)
	s.ResponseWriter.WriteHeader(code)
}

func (s *sender) Flush() { s.begun.Store(true) }

// wantDone checks that an answer refuses a repetition, and says what can be told of the first answer.
func wantDone(t *testing.T, status int, body string, first int, location string) {
	t.Helper()
	var p struct {
		Type     string `json:"type"`
		First    int    `json:"answer_status"`
		Location string `json:"answer_location"`
	}
	err := json.Unmarshal([]byte(body), &p)
	if err != nil || status != 409 || p.Type != "idempotency-done" || p.First != first || p.Location != location {
		t.Errorf("status %d, %q, %v; want 409 idempotency-done with %d and %q", status, body, err, first, location)
	}
}

// Nothing of an answer that is kept leaves before it is recorded.
func TestNothingLeavesBeforeTheRecord(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(w http.ResponseWriter){
		"a status":      func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) },
		"a body":        func(w http.ResponseWriter) { _, _ = io.WriteString(w, "body") },
		"a flush":       func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"a controller":  func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"a copy":        func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("copied")) },
		"the full body": func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 64<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &sender{ResponseWriter: httptest.NewRecorder()}
			store := newTestStore()
			store.ends = func(idempotency.End) error {
				if out.begun.Load() {
					t.Error("a part of the answer left before the record")
				}
				return nil
			}
			once(store.locker(), func(w http.ResponseWriter, _ *http.Request) {
				write(w)
				if out.begun.Load() {
					t.Error("a part of the answer left before the handler has returned")
				}
			}).ServeHTTP(out, keyed("k-1", ""))
			if !out.begun.Load() || store.state("k-1") != idempotency.Done {
				t.Errorf("sent %v, state %v", out.begun.Load(), store.state("k-1"))
			}
		})
	}
}

// A longer body, a flush with WithStreaming and a hijack record first that the work is done.
func TestAnswersThatAreStreamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		write func(w http.ResponseWriter)
		opts  []httpmw.IdempotentOption
	}{
		"a long body":   {func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 64<<10+1)) }, nil},
		"a long copy":   {func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 100_000))) }, nil},
		"WithStreaming": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "1"); w.(http.Flusher).Flush() }, []httpmw.IdempotentOption{httpmw.WithStreaming()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &sender{ResponseWriter: httptest.NewRecorder()}
			store := newTestStore()
			store.ends = func(idempotency.End) error {
				if out.begun.Load() {
					t.Error("a part of the answer left before the record")
				}
				return nil
			}
			h := once(store.locker(), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/1")
				w.WriteHeader(http.StatusCreated)
				tt.write(w)
				if !out.begun.Load() || store.state("k-1") != idempotency.Done {
					t.Errorf("sent %v, state %v", out.begun.Load(), store.state("k-1"))
				}
				time.Sleep(5 * time.Millisecond)
				if err := r.Context().Err(); err != nil {
					t.Errorf("the context of a handler that streams has ended: %v", err)
				}
			}, tt.opts...)
			h.ServeHTTP(out, keyed("k-1", ""))
			rec := serve(h, keyed("k-1", ""))
			wantDone(t, rec.Code, rec.Body.String(), 201, "/1")
		})
	}
}

func TestEventsOverTheWire(t *testing.T) {
	t.Parallel()
	for name, server := range webtest.Servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{})
			site := webtest.NewSite(t, server.Around(once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Trailer", "X-End")
				for i := range 3 {
					_, _ = fmt.Fprintf(w, "data: %d\n", i)
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
					<-next
				}
				w.Header().Set("X-End", "yes")
				if err := r.Context().Err(); err != nil {
					t.Error(err)
				}
			}, httpmw.WithStreaming())), server.Protocol)
			resp, err := site.Send(t.Context(), http.MethodPost, "/", nil, "Idempotency-Key", "k-1")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for i := range 3 {
				if want := fmt.Sprintf("data: %d", i); !lines.Scan() || lines.Text() != want {
					t.Fatalf("%q, want %q: %v", lines.Text(), want, lines.Err())
				}
				next <- struct{}{}
			}
			if lines.Scan() || lines.Err() != nil || resp.Trailer.Get("X-End") != "yes" {
				t.Errorf("%q, %v, trailer %v", lines.Text(), lines.Err(), resp.Trailer)
			}
			a := site.Request(t, http.MethodPost, "/", "Idempotency-Key", "k-1")
			wantDone(t, a.Status, a.Body, 200, "")
		})
	}
}

func TestAHijackedConnection(t *testing.T) {
	t.Parallel()
	for name, server := range webtest.Servers {
		store := newTestStore()
		site := webtest.NewSite(t, server.Around(once(store.locker(), func(w http.ResponseWriter, _ *http.Request) {
			if _, hijacks := w.(http.Hijacker); hijacks != (name != "HTTP2") {
				t.Errorf("%s: a Hijacker: %v", name, hijacks)
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if name == "HTTP2" {
				if !errors.Is(err, http.ErrNotSupported) {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if err != nil || store.state("k-1") != idempotency.Done {
				t.Errorf("%s: %v, state %v", name, err, store.state("k-1"))
				return
			}
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
				t.Errorf("%s: a write: %v", name, err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			_ = conn.Close()
		})), server.Protocol)
		first := site.Request(t, http.MethodPost, "/", "Idempotency-Key", "k-1")
		again := site.Request(t, http.MethodPost, "/", "Idempotency-Key", "k-1")
		if name == "HTTP2" {
			if first.Status != 200 || again.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s: %v, %v", name, first, again)
			}
			continue
		}
		if first.Body != "ok" {
			t.Errorf("%s: %v", name, first)
		}
		wantDone(t, again.Status, again.Body, 0, "")
	}
}

// 103 passes while the handler works, and leaves nothing behind. Trailers and 206 are kept without body.
func TestEarlyHintsTrailersAndParts(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		hinted := make(chan struct{})
		mux := http.NewServeMux()
		mux.Handle("/hints", once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			usertest.Receive(t, "the hint", hinted)
			w.Header().Del("Link")
			w.WriteHeader(http.StatusCreated)
		}))
		trailers := func(name string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				if name == "X-Sum" {
					w.Header().Set("Trailer", "X-Sum")
				}
				_, _ = io.WriteString(w, "body")
				w.Header().Set(name, "7")
			}
		}
		mux.Handle("/trailer", once(lockmw.NewLocal(), trailers("X-Sum")))
		mux.Handle("/late", once(lockmw.NewLocal(), trailers(http.TrailerPrefix+"X-Sum")))
		mux.Handle("/part", once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "part")
		}))
		site := webtest.NewSite(t, mux, edit)
		link := ""
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				link = h.Get("Link")
				close(hinted)
			}
			return nil
		}})
		resp, err := site.Send(ctx, http.MethodPost, "/hints", nil, "Idempotency-Key", "k-1")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusCreated || link != "</style.css>" || resp.Header.Get("Link") != "" {
			t.Errorf("%s: %v, hint %q", protocol, resp, link)
		}
		for _, path := range []string{"/trailer", "/late"} {
			resp, err := site.Send(t.Context(), http.MethodPost, path, nil, "Idempotency-Key", "k-1")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "body" || resp.Trailer.Get("X-Sum") != "7" {
				t.Errorf("%s: %q, trailer %v", protocol, body, resp.Trailer)
			}
			a := site.Request(t, http.MethodPost, path, "Idempotency-Key", "k-1")
			wantDone(t, a.Status, a.Body, 200, "")
		}
		if a := site.Request(t, http.MethodPost, "/part", "Idempotency-Key", "k-1"); a.Status != 206 || a.Body != "part" {
			t.Errorf("%v", a)
		}
		a := site.Request(t, http.MethodPost, "/part", "Idempotency-Key", "k-1")
		wantDone(t, a.Status, a.Body, 206, "")
	}
}

// The output of the handler obeys the rules of net/http.
func TestTheWriterOfARun(t *testing.T) {
	t.Parallel()
	var late http.ResponseWriter
	site := webtest.NewSite(t, once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
		late = w
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Now().Add(time.Hour)), control.SetWriteDeadline(time.Now().Add(time.Hour)), control.EnableFullDuplex()); err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("a body with 204: %v", err)
			}
		case "/length":
			w.Header().Set("Content-Length", "2")
			if _, err := io.WriteString(w, "ok"); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("more than Content-Length: %v", err)
			}
		case "/invalid":
			if usertest.Recovered(func() { w.WriteHeader(7) }) == nil {
				t.Error("an invalid status does not panic")
			}
		}
	}))
	for path, status := range map[string]int{"/204": 204, "/length": 200, "/invalid": 200} {
		for range 2 {
			a := site.Request(t, http.MethodPost, path, "Idempotency-Key", path)
			if a.Status != status || path == "/length" && (a.Body != "ok" || a.Header.Get("Content-Length") != "2") {
				t.Errorf("%s: %v", path, a)
			}
		}
		if _, err := io.WriteString(late, "late"); err == nil {
			t.Error("a write after the handler has returned succeeds")
		}
		if err := http.NewResponseController(late).Flush(); err == nil {
			t.Error("a flush after the handler has returned succeeds")
		}
		late.WriteHeader(http.StatusInternalServerError)
	}
}
