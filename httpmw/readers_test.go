package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestReadersShareALockOnRedisAndWritersDoNot(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		inside := newGate(t)
		mux := http.NewServeMux()
		for path, c := range map[string]*lockmw.Client{"/one": usertest.Client(t, s), "/two": usertest.Client(t, s)} {
			mux.Handle(path, httpmw.WithRWLock(rwlock.New(c), secretUser)(inside))
		}
		site := webtest.NewSite(t, mux)
		t.Cleanup(inside.Open)
		answers := make(chan webtest.Answer, 4)
		for _, path := range []string{"/one", "/two"} {
			for _, method := range []string{http.MethodGet, http.MethodOptions} {
				go func() { answers <- site.Request(t, method, path) }()
				usertest.Receive(t, method+" "+path+" is handled", inside.entered)
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			for _, path := range []string{"/one", "/two"} {
				wantProblem(t, site.Request(t, method, path), 409, "lock-busy", true)
			}
		}
		inside.Open()
		for range cap(answers) {
			if a := usertest.Receive(t, "a reader is answered", answers); a.Status != http.StatusCreated {
				t.Errorf("a reader: status %d: %s", a.Status, a.Body)
			}
		}
		if a := site.Request(t, http.MethodPost, "/one"); a.Status != http.StatusCreated {
			t.Errorf("a writer afterwards: status %d: %s", a.Status, a.Body)
		}
	})
}
