// Package webtest contains what tests of HTTP middleware share: servers that clients reach over TCP by both protocols, and the
// response writers of other middleware.
package webtest

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
)

// A Site is a server that clients reach over TCP.
type Site struct {
	*httptest.Server
	Complaint string // expected in the log of net/http
}

// NewSite serves h until the test ends. It fails the test if net/http logs a complaint, such as a header that was written
// twice.
func NewSite(t testing.TB, h http.Handler, edit ...func(*httptest.Server)) *Site {
	t.Helper()
	var handlers sync.WaitGroup // the server does not wait for a handler that has taken over its connection
	s := &Site{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		if said := complaints.String(); (said == "") != (s.Complaint == "") || !strings.Contains(said, s.Complaint) {
			t.Errorf("net/http logged %q, want %q", said, s.Complaint)
		}
	})
	return s
}

// Protocols are the protocols of a Site.
var Protocols = map[string]func(*httptest.Server){
	"HTTP1": func(*httptest.Server) {},
	"HTTP2": HTTP2,
}

// HTTP2 makes a Site use it.
func HTTP2(s *httptest.Server) { s.EnableHTTP2 = true }

// NoRedirects makes the client return redirects.
func (s *Site) NoRedirects() {
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

// An Answer is what a client received.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Get is Request with that method.
func (s *Site) Get(t testing.TB, path string, header ...string) Answer {
	t.Helper()
	return s.Request(t, http.MethodGet, path, header...)
}

// Request is Do without a body.
func (s *Site) Request(t testing.TB, method, path string, header ...string) Answer {
	t.Helper()
	return s.Do(t, method, path, nil, header...)
}

// Do sends a request and returns the whole answer, within a minute. It may be called from any
// goroutine: a failure does not end the test.
func (s *Site) Do(t testing.TB, method, path string, body io.Reader, header ...string) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := s.Send(ctx, method, path, body, header...)
	if err != nil {
		t.Errorf("%s %.100s: %v", method, path, err)
		return Answer{}
	}
	defer resp.Body.Close()
	received, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %.100s: %v", method, path, err)
	}
	return Answer{resp.StatusCode, resp.Header, string(received)}
}

// Send sends a request; header contains names and values in turn.
func (s *Site) Send(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.Client().Do(r)
}
