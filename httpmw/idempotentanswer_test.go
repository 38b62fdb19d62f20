package httpmw_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

func TestHeadersOfAReplay(t *testing.T) {
	t.Parallel()
	outer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", r.Header.Get("X-Nonce"))
			w.Header().Set("X-Outer", r.Header.Get("X-Nonce"))
			w.Header().Set("X-Removed", "outer")
			w.Header().Set("Link", "outer")
			next.ServeHTTP(w, r)
		})
	}
	kept := map[string]string{
		"Location": "/orders/1", "Etag": `"1"`, "Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT", "Cache-Control": "no-cache",
		"Content-Type": "text/x-order", "Content-Language": "de", "Content-Disposition": "inline", "X-Order": "1",
	}
	h := outer(once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range kept {
			w.Header().Set(name, value)
		}
		w.Header().Add("Link", "inner")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Once", "1")
		w.Header().Del("X-Removed")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "1")
		_, _ = io.WriteString(w, "order")
	}, httpmw.WithHeaders("x-order")))
	first := serve(h, keyed("k-1", "", "X-Nonce", "a"))
	again := serve(h, keyed("k-1", "", "X-Nonce", "b"))
	for i, rec := range []*httptest.ResponseRecorder{first, again} {
		got, isFirst := rec.Result().Header, i == 0
		for name, value := range kept {
			if got.Get(name) != value {
				t.Errorf("answer %d: %s: %q, want %q", i, name, got.Get(name), value)
			}
		}
		if links := got.Values("Link"); !slices.Equal(links, []string{"outer", "inner"}) {
			t.Errorf("answer %d: Link: %q", i, links)
		}
		if nonce := "ab"[i : i+1]; got.Get("Content-Security-Policy") != nonce || got.Get("X-Outer") != nonce {
			t.Errorf("answer %d: the header of the middleware outside is %v", i, got)
		}
		if (got.Get("Set-Cookie") != "") != isFirst || (got.Get("X-Once") != "") != isFirst || (got.Get("X-Removed") == "") != isFirst || got.Get("X-Late") != "" {
			t.Errorf("answer %d: %v", i, got)
		}
		if rec.Body.String() != "order" || rec.Code != 201 {
			t.Errorf("answer %d: %d, %q", i, rec.Code, rec.Body)
		}
	}
}

// gunzip returns what a client that accepts gzip reads.
func gunzip(t *testing.T, a webtest.Answer) string {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		return a.Body
	}
	z, err := gzip.NewReader(strings.NewReader(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestCompressionOutsideAndInside(t *testing.T) {
	t.Parallel()
	const text = `{"order":1,"order":1,"order":1,"order":1,"order":1,"order":1}`
	order := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, text)
	}
	compress := middleware.Compress(5)
	for protocol, edit := range webtest.Protocols {
		mux := http.NewServeMux()
		mux.Handle("/outside", compress(once(lockmw.NewLocal(), order)))
		mux.Handle("/inside", once(lockmw.NewLocal(), compress(http.HandlerFunc(order)).ServeHTTP))
		site := webtest.NewSite(t, mux, edit)
		do := func(path, accepts string) webtest.Answer {
			return site.Request(t, http.MethodPost, path, "Idempotency-Key", "k-1", "Accept-Encoding", accepts)
		}
		for i, tt := range []struct {
			path, accepts string
			gzip          bool
		}{
			{"/outside", "gzip", true}, {"/outside", "gzip", true}, {"/outside", "identity", false}, {"/inside", "gzip", true}, {"/inside", "br, gzip;q=0.5", true},
			{"/inside", "x-gzip", true}, {"/inside", "*", true},
		} {
			a := do(tt.path, tt.accepts)
			if a.Status != 201 || gunzip(t, a) != text || (a.Header.Get("Content-Encoding") == "gzip") != tt.gzip {
				t.Errorf("%s %s for %s: %d %v %q", protocol, tt.path, tt.accepts, a.Status, a.Header, a.Body)
			}
			if replayed := a.Header.Get("Idempotent-Replayed") == "true"; replayed != (i != 0 && i != 3) {
				t.Errorf("%s %s for %s: replayed %v", protocol, tt.path, tt.accepts, replayed)
			}
		}
		for _, accepts := range []string{"identity", "br", "gzip;q=0", "gzip; q=0, *", "*;q=0", "br;q=1, gzip;q=x"} {
			if a := do("/inside", accepts); a.Status != 409 || !strings.Contains(a.Body, `"idempotency-done"`) || a.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s for %q: %d %v %q", protocol, accepts, a.Status, a.Header, a.Body)
			}
		}
	}
}

// net/http breaks the connection of a client that gets less than its Content-Length. A repetition must not get that body as a whole one.
func TestABodyThatBreaksOffIsNotRepeated(t *testing.T) {
	t.Parallel()
	site := webtest.NewSite(t, once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "half")
		_, _ = io.WriteString(w, "too long")
	}))
	resp, err := site.Send(t.Context(), http.MethodPost, "/", nil, "Idempotency-Key", "k-1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the first answer is %q, %v", text, err)
	}
	a := site.Request(t, http.MethodPost, "/", "Idempotency-Key", "k-1")
	if a.Status != 409 || !strings.Contains(a.Body, `"idempotency-done"`) || !strings.Contains(a.Body, `"answer_status":201`) {
		t.Errorf("the second answer: %v", a)
	}
}

// A browser's preflight passes, and each origin gets its own headers.
func TestCORSOutside(t *testing.T) {
	t.Parallel()
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			w.Header().Add("Vary", "Origin")
			next.ServeHTTP(w, r)
		})
	}
	var runs atomic.Int32
	h := cors(once(lockmw.NewLocal(), counted(&runs), httpmw.WithHeaders("Vary", "Access-Control-Allow-Origin")))
	preflight := keyed("k-1", "", "Origin", "https://a.example")
	preflight.Method = http.MethodOptions
	serve(h, preflight)
	runs.Store(0)
	for i, origin := range []string{"https://a.example", "https://b.example"} {
		rec := serve(h, keyed("k-1", "", "Origin", origin))
		wantFirst(t, rec, i > 0)
		if got := rec.Header(); got.Get("Access-Control-Allow-Origin") != origin || len(got.Values("Vary")) != 1 {
			t.Errorf("%v", got)
		}
	}
	refused := serve(h, keyed("k-1", "other", "Origin", "https://c.example"))
	if refused.Code != 422 || refused.Header().Get("Access-Control-Allow-Origin") != "https://c.example" {
		t.Errorf("%d %v", refused.Code, refused.Header())
	}
}

// form is the request of a browser that sends a form with a file; the boundary is new in each call.
func form(t *testing.T, key, name, file string) *http.Request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(part, file)
	_ = w.WriteField("item", "7")
	_ = w.Close()
	return keyed(key, b.String(), "Content-Type", w.FormDataContentType())
}

func TestAFormHasANewBoundaryInEachTry(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("item") != "7" || len(r.MultipartForm.File["file"]) != 1 {
			t.Errorf("form %v", r.MultipartForm)
		}
		counted(&runs)(w, r)
	})
	wantFirst(t, serve(h, form(t, "k-1", "a.txt", "content")), false)
	wantFirst(t, serve(h, form(t, "k-1", "a.txt", "content")), true)
	for _, other := range [][2]string{{"b.txt", "content"}, {"a.txt", "content2"}} {
		if rec := serve(h, form(t, "k-1", other[0], other[1])); rec.Code != 422 {
			t.Errorf("%v: status %d", other, rec.Code)
		}
	}
	cut := form(t, "k-1", "a.txt", "content")
	cut.Body = io.NopCloser(io.LimitReader(cut.Body, 100))
	if rec := serve(h, cut); rec.Code != 422 {
		t.Errorf("a form without its end: status %d", rec.Code)
	}
}

func TestWithFingerprint(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); !strings.Contains(string(text), "b") {
			t.Errorf("body %q", text)
		}
		counted(&runs)(w, r)
	}, httpmw.WithFingerprint(func(r *http.Request, body []byte) ([]byte, error) {
		if r.Header.Get("X-Bad") != "" {
			return nil, fmt.Errorf("%w: bad", lockmw.ErrInvalidKey)
		}
		_, _ = io.ReadAll(r.Body) // has no effect for the handler
		sorted := bytes.Split(body, []byte("&"))
		slices.SortFunc(sorted, bytes.Compare)
		return append(bytes.Join(sorted, nil), r.Header.Get("X-Tenant")...), nil
	}))
	wantFirst(t, serve(h, keyed("k-1", "a&b", "X-Tenant", "1")), false)
	again := keyed("k-1", "b&a", "X-Tenant", "1")
	again.URL.RawQuery = "signature=2"
	wantFirst(t, serve(h, again), true)
	if rec := serve(h, keyed("k-1", "a&b", "X-Tenant", "2")); rec.Code != 422 {
		t.Errorf("another tenant: status %d", rec.Code)
	}
	path := keyed("k-1", "a&b", "X-Tenant", "1")
	path.URL.Path = "/other"
	if rec := serve(h, path); rec.Code != 422 {
		t.Errorf("another path: status %d", rec.Code)
	}
	wantIdemProblem(t, serve(h, keyed("k-1", "a&b", "X-Bad", "1")), 400, "lock-invalid-key", false)
}

func TestAnErrorHandlerAnswersARepetition(t *testing.T) {
	t.Parallel()
	var got error
	runner := idempotency.New(lockmw.NewLocal())
	h := httpmw.Idempotent(runner, scoped, idempotency.Refuse, httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		got = err
		httpmw.WriteError(w, r, err)
	}), httpmw.WithRequired())(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	serve(h, keyed("k-1", ""))
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-unknown-outcome", false)
	isIdemError(t, got, idempotency.ErrUnknownOutcome)
	wantIdemProblem(t, serve(h, keyed("k-1", "other")), 422, "idempotency-key-reused", false)
	isIdemError(t, got, idempotency.ErrReused)
	wantIdemProblem(t, post(h, "/"), 400, "idempotency-key-missing", false)
	isIdemError(t, got, lockmw.ErrInvalidKey)
}

func TestKeysThatAreTooOldAreRefused(t *testing.T) {
	t.Parallel()
	runner := idempotency.New(lockmw.NewLocal(), idempotency.WithKeyTime(oldKeys))
	h := httpmw.Idempotent(runner, scoped, idempotency.RunAgain)(never(t))
	wantIdemProblem(t, serve(h, keyed("k-1", "")), 409, "idempotency-key-expired", false)
}

// An unknown outcome is logged with what an operator needs, and with neither the key nor the scope.
func TestLogsOfIdempotent(t *testing.T) {
	log := usertest.DefaultLog(t)
	id := ""
	h := once(lockmw.NewLocal(), func(w http.ResponseWriter, r *http.Request) {
		run, _ := idempotency.FromContext(r.Context())
		id = run.ID()
		w.WriteHeader(http.StatusInternalServerError)
	})
	for range 2 {
		serve(h, keyed("k-1", "cart"))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	silent := once(lockmw.NewLocal(), func(_ http.ResponseWriter, r *http.Request) { cancel(io.EOF); <-r.Context().Done() })
	serve(silent, keyed("k-1", "cart").WithContext(ctx))
	if lines := strings.Count(log.String(), "run="+id); lines != 2 {
		t.Errorf("the run and the refusal of its repetition are in %d lines", lines)
	}
	broken := idempotency.Sealer{Seal: func([]byte) ([]byte, error) { return nil, io.ErrClosedPipe }, Open: func(b []byte) ([]byte, error) { return b, nil }}
	unrecorded := httpmw.Idempotent(idempotency.New(lockmw.NewLocal(), idempotency.WithSealer(broken)), scoped, idempotency.Refuse)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			run, _ := idempotency.FromContext(r.Context())
			id = run.ID()
			w.WriteHeader(http.StatusCreated)
		}))
	serve(unrecorded, keyed("k-1", "cart"))
	if said := log.String(); !strings.Contains(said, "run="+id) || !strings.Contains(said, "not answered") || strings.Contains(said, "k-1") || strings.Contains(said, "secret-42") {
		t.Errorf("the log says\n%s", said)
	}
}
