package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
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
		site := newSite(t, mux)
		t.Cleanup(inside.Open)
		answers := make(chan answer, 4)
		for _, path := range []string{"/one", "/two"} {
			for _, method := range []string{http.MethodGet, http.MethodOptions} {
				go func() { answers <- site.ask(t, method, path) }()
				usertest.Receive(t, method+" "+path+" is handled", inside.entered)
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			for _, path := range []string{"/one", "/two"} {
				site.ask(t, method, path).wantProblem(t, 409, "lock-busy", true)
			}
		}
		inside.Open()
		for range cap(answers) {
			if a := usertest.Receive(t, "a reader is answered", answers); a.status != http.StatusCreated {
				t.Errorf("a reader: status %d: %s", a.status, a.body)
			}
		}
		if a := site.ask(t, http.MethodPost, "/one"); a.status != http.StatusCreated {
			t.Errorf("a writer afterwards: status %d: %s", a.status, a.body)
		}
	})
}
