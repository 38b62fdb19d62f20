package httpmw_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// net/http removes the files of a form that it finds in its own request; the handler gets a copy.
func TestTheFilesOfAFormAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for protocol, edit := range webtest.Protocols {
		for _, path := range []string{"/", "/panic"} { // recoverer hides the panic from net/http
			t.Run(protocol+path, func(t *testing.T) {
				site := webtest.NewSite(t, recoverer(httpmw.WithLock(lockmw.NewLocal(), user42)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if err := r.ParseMultipartForm(1); err != nil {
						t.Error(err)
					}
					if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
						t.Errorf("%d files, %v; the test needs one", len(files), err)
					}
					if r.URL.Path == "/panic" {
						panic("a bug")
					}
				}))), edit)
				var body bytes.Buffer
				form := multipart.NewWriter(&body)
				file, err := form.CreateFormFile("file", "file.bin")
				if err == nil {
					_, err = file.Write(make([]byte, 11<<20))
				}
				if err != nil {
					t.Fatal(err)
				}
				_ = form.Close()
				resp, err := site.Send(t.Context(), http.MethodPost, path, &body, "Content-Type", form.FormDataContentType())
				if err == nil {
					_ = resp.Body.Close()
				}
				site.Close()
				if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
					t.Errorf("%d files are left, %v", len(files), err)
				}
			})
		}
	}
}

// recoverer is chi's Recoverer without its log.
func recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
