package httpmw_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// patience is how long a test waits for what must happen.
const patience = 15 * time.Second

// impatient has a client give up on a server that is gone at once. The pool is large because, after as
// many errors, it goes on dialling for a while when it is closed.
func impatient(opts *redis.Options) {
	opts.MaxRetries, opts.DialerRetries, opts.PoolSize = -1, 1, 1000
}

// A site is a server that is asked over TCP.
type site struct {
	*httptest.Server
	complaint string // of net/http that is expected
}

// newSite serves h until the test ends; it fails the test if net/http has something to complain of,
// such as a header that was written twice.
func newSite(t testing.TB, h http.Handler, edit ...func(*httptest.Server)) *site {
	var handlers sync.WaitGroup // the server does not wait for one that has taken over its connection
	s := &site{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		h.ServeHTTP(w, r)
	}))}
	var complaints usertest.Output
	s.Config.ErrorLog = log.New(&complaints, "", 0)
	for _, f := range edit {
		f(s.Server)
	}
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.Close()
		handlers.Wait()
		if said := complaints.String(); (said == "") != (s.complaint == "") || !strings.Contains(said, s.complaint) {
			t.Errorf("net/http complains %q, expected %q", said, s.complaint)
		}
	})
	return s
}

// accessLog sends the status of every response to the channel, as access logs see it.
func accessLog(next http.Handler) (http.Handler, <-chan int) {
	statuses := make(chan int, 10_000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logged := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() { statuses <- logged.Status() }()
		next.ServeHTTP(logged, r)
	}), statuses
}

// noRedirects has the client return redirects.
func (s *site) noRedirects() {
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

func http2(s *httptest.Server) { s.EnableHTTP2 = true }

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks for a path; it may be called from any goroutine.
func (s *site) get(t testing.TB, path string, header ...string) answer {
	return s.ask(t, http.MethodGet, path, header...)
}

func (s *site) ask(t testing.TB, method, path string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	resp, err := s.send(ctx, method, path, nil, header...)
	if err != nil {
		t.Errorf("%s %.100s: %v", method, path, err)
		return answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %.100s: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (s *site) send(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.Client().Do(r)
}

// wantProblem checks an answer of the middleware's own. Only those that a client may repeat have
// retry set: they say when.
func (a answer) wantProblem(t testing.TB, status int, typ string, retry bool) {
	t.Helper()
	var p problem
	dec := json.NewDecoder(strings.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%v: status %d, Content-Type %q, body %q; want %d %s", err, a.status, a.header.Get("Content-Type"), a.body, status, typ)
	}
	if a.status != status || p.Status != status || p.Type != typ {
		t.Errorf("status %d, problem %+v; want %d %s", a.status, p, status, typ)
	}
	after := a.header.Get("Retry-After")
	if seconds, err := time.ParseDuration(after + "s"); retry && (err != nil || seconds < time.Second || p.RetryAfterMS < 1) || !retry && after != "" {
		t.Errorf("Retry-After %q, retry_after_ms %d; wanted: %t", after, p.RetryAfterMS, retry)
	}
	if strings.Contains(a.body, "user:") || strings.Contains(a.body, "secret") {
		t.Errorf("the answer shows the key: %s", a.body)
	}
}

// queued returns how many tickets wait for key in Redis.
func queued(t testing.TB, s *redistest.Server, key string) int64 {
	t.Helper()
	rdb := s.NewClient(t)
	defer rdb.Close()
	n, err := rdb.ZCard(context.Background(), "lockmw:{"+key+"}:queue").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A gate is a handler in which requests stay until it is opened.
type gate struct {
	entered chan *http.Request
	opened  chan struct{}
	Open    func()
}

// newGate is opened at the end of the test at the latest; make it after the site.
func newGate(t testing.TB) *gate {
	g := &gate{entered: make(chan *http.Request, 10_000), opened: make(chan struct{})}
	g.Open = sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(g.Open)
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.entered <- r
	<-g.opened
	w.WriteHeader(http.StatusCreated)
}
