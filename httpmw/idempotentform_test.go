package httpmw_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// readers read the body of a request before Idempotent compares it.
var readers = map[string]func(r *http.Request){
	"ParseForm":          func(r *http.Request) { _ = r.ParseForm() },
	"FormValue":          func(r *http.Request) { r.FormValue("item") },
	"ParseMultipartForm": func(r *http.Request) { _ = r.ParseMultipartForm(16) }, // the file is on the disk
	"only the query":     func(r *http.Request) { r.URL.Query() },
}

// A form returns the request of a form with an item, in its two kinds.
var forms = map[string]func(item string) *http.Request{
	"urlencoded": func(item string) *http.Request {
		r := keyed("k-1", url.Values{"item": {item}, "n": {"1", "2"}}.Encode())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	},
	"multipart": func(item string) *http.Request {
		var body bytes.Buffer
		w := multipart.NewWriter(&body) // has a new boundary
		_ = w.WriteField("n", "1")
		file, _ := w.CreateFormFile("item", "item.txt")
		_, _ = io.WriteString(file, item+strings.Repeat("x", 100))
		_ = w.Close()
		r := keyed("k-1", body.String())
		r.Header.Set("Content-Type", w.FormDataContentType())
		return r
	},
}

func TestAFormThatWasReadBeforeIsCompared(t *testing.T) {
	for where, mount := range map[string]func(read func(*http.Request), h http.HandlerFunc) http.Handler{
		"by middleware outside": func(read func(*http.Request), h http.HandlerFunc) http.Handler {
			inner := once(lockmw.NewLocal(), h)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { read(r); inner.ServeHTTP(w, r) })
		},
		"by the scope": func(read func(*http.Request), h http.HandlerFunc) http.Handler {
			scope := func(r *http.Request) (string, error) { read(r); return "secret-42", nil }
			return httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), scope, idempotency.Refuse)(h)
		},
	} {
		for reader, read := range readers {
			for kind, form := range forms {
				t.Run(where+" with "+reader+", "+kind, func(t *testing.T) {
					t.Parallel()
					var runs atomic.Int32
					h := mount(read, func(w http.ResponseWriter, r *http.Request) {
						_ = r.ParseMultipartForm(1 << 20)
						if got := r.FormValue("n"); got != "1" {
							t.Errorf("the handler has n=%q", got)
						}
						counted(&runs)(w, r)
					})
					wantFirst(t, serve(h, form("tea")), false)
					wantFirst(t, serve(h, form("tea")), true)
					wantIdemProblem(t, serve(h, form("cup")), 422, "idempotency-key-reused", false)
				})
			}
		}
	}
}

func TestABodyThatWasReadBeforeCannotBeCompared(t *testing.T) {
	usertest.DefaultLog(t)
	readAll := func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	parts := func(r *http.Request) {
		if reader, err := r.MultipartReader(); err == nil {
			for _, err = reader.NextPart(); err == nil; _, err = reader.NextPart() { //nolint:revive // reads all parts
			}
		}
	}
	for name, tt := range map[string]struct {
		read    func(r *http.Request)
		request *http.Request
		opts    []httpmw.IdempotentOption
		status  int
	}{
		"read":                  {readAll, keyed("k-1", "cart"), nil, 500},
		"read, and then parsed": {func(r *http.Request) { readAll(r); _ = r.ParseForm() }, forms["urlencoded"]("tea"), nil, 500},
		"replaced by no body":   {func(r *http.Request) { r.Body = http.NoBody }, keyed("k-1", "cart"), nil, 500},
		"read part by part":     {parts, forms["multipart"]("tea"), nil, 500},
		"empty":                 {readAll, keyed("k-1", ""), nil, 201},
		"a large form":          {func(r *http.Request) { r.ContentLength = -1; _ = r.ParseMultipartForm(16) }, forms["multipart"](strings.Repeat("x", 2<<20)), nil, 413},
		"WithFingerprint": {readAll, keyed("k-1", "cart"), []httpmw.IdempotentOption{
			httpmw.WithFingerprint(func(*http.Request, []byte) ([]byte, error) { return nil, nil }),
		}, 201},
	} {
		t.Run(name, func(t *testing.T) {
			h := once(lockmw.NewLocal(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, tt.opts...)
			tt.read(tt.request)
			var rec *httptest.ResponseRecorder
			if rec = serve(h, tt.request); rec.Code != tt.status {
				t.Errorf("status %d: %s", rec.Code, rec.Body)
			}
			if tt.status == 413 {
				wantIdemProblem(t, rec, 413, "idempotency-body-too-large", false)
			}
		})
	}
}
