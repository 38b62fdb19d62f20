package httpmw_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/webtest"
)

// patience is how long a test waits for an expected event.
const patience = time.Minute

// impatient makes a client give up immediately on a server that is gone. The pool is large: after as many errors as it has
// connections, it continues to dial for a while when it is closed.
func impatient(opts *redis.Options) {
	opts.MaxRetries, opts.DialerRetries, opts.PoolSize = -1, 1, 1000
}

// wantProblem checks a response of the middleware. With retry it must say when the client may try again.
func wantProblem(t testing.TB, a webtest.Answer, status int, typ string, retry bool) {
	t.Helper()
	var p problem
	dec := json.NewDecoder(strings.NewReader(a.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%v: status %d, Content-Type %q, body %q; want %d %s", err, a.Status, a.Header.Get("Content-Type"), a.Body, status, typ)
	}
	if a.Status != status || p.Status != status || p.Type != typ {
		t.Errorf("status %d, problem %+v; want %d %s", a.Status, p, status, typ)
	}
	after := a.Header.Get("Retry-After")
	if seconds, err := time.ParseDuration(after + "s"); retry && (err != nil || seconds < time.Second || p.RetryAfterMS < 1) || !retry && after != "" {
		t.Errorf("Retry-After %q, retry_after_ms %d; wanted: %t", after, p.RetryAfterMS, retry)
	}
	if strings.Contains(a.Body, "user:") || strings.Contains(a.Body, "secret") {
		t.Errorf("the answer shows the key: %s", a.Body)
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

// A gate is a handler that blocks requests until it is opened.
type gate struct {
	entered chan *http.Request
	opened  chan struct{}
	Open    func()
}

// newGate returns a gate that is opened at the latest when the test ends. Create it after the site.
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
