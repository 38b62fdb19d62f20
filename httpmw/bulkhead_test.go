package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Two processes share a bulkhead of two places.
func TestABulkheadLetsSoManyRequestsInOverAllProcesses(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		inside := newGate(t)
		mux := http.NewServeMux()
		for path, c := range map[string]*lockmw.Client{"/one": usertest.Client(t, s), "/two": usertest.Client(t, s)} {
			mux.Handle(path, httpmw.WithLock(semaphore.New(c, 2), secretUser)(inside))
		}
		site := webtest.NewSite(t, mux)
		t.Cleanup(inside.Open)
		answers := make(chan webtest.Answer, 2)
		for _, path := range []string{"/one", "/two"} {
			go func() { answers <- site.Request(t, http.MethodPost, path) }()
			usertest.Receive(t, path+" is handled", inside.entered)
		}
		for _, path := range []string{"/one", "/two"} {
			a := site.Request(t, http.MethodPost, path)
			wantProblem(t, a, 409, "lock-busy", true) // with a Retry-After
		}
		inside.Open()
		for range cap(answers) {
			if a := usertest.Receive(t, "a request is answered", answers); a.Status != http.StatusCreated {
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		}
		if a := site.Request(t, http.MethodPost, "/one"); a.Status != http.StatusCreated {
			t.Errorf("afterwards: status %d: %s", a.Status, a.Body)
		}
	})
}
