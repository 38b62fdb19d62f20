package httpmw_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

// whenContended returns a Local that sends to waits when a call starts to wait.
func whenContended(waits chan struct{}) *lockmw.Local {
	return lockmw.NewLocal(lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waits <- struct{}{} },
	}))
}

func TestAWaitEndsWithItsClientThoughTheRequestHasABody(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		for _, size := range []int{1, 100, 4096, 64 << 10} {
			t.Run(fmt.Sprint(protocol, " ", size), func(t *testing.T) {
				t.Parallel()
				waits := make(chan struct{}, 10)
				local := whenContended(waits)
				usertest.Occupy(t, local, "user:42")
				logged, statuses := webtest.AccessLog(httpmw.WithLock(local, user42, lockmw.WithWait(lockmw.Forever))(never(t)))
				site := webtest.NewSite(t, logged, edit)
				ctx, leave := context.WithCancel(t.Context())
				go func() {
					usertest.Receive(t, "the request waits", waits)
					leave()
				}()
				resp, err := site.Send(ctx, http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
				if err == nil {
					err = errors.Join(resp.Body.Close(), errors.New(resp.Status))
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the client got an answer: %v", err)
				}
				if status := usertest.Receive(t, "the access log", statuses); status != 499 {
					t.Errorf("status %d, want 499", status)
				}
			})
		}
	}
}

func TestARequestWhoseClientLeavesInTheMiddleOfItsBodyIsNotHandled(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	logged, statuses := webtest.AccessLog(httpmw.WithLock(local, user42, lockmw.WithWait(patience))(never(t)))
	site := webtest.NewSite(t, logged)
	conn := dial(t, site, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nbegin")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if status := usertest.Receive(t, "the access log", statuses); status != 499 {
		t.Errorf("status %d, want 499", status)
	}
}

// dial connects to the site and sends text.
func dial(t *testing.T, site *webtest.Site, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", site.Listener.Addr().String())
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// A slow client gets the lock only after its small body has arrived.
func TestWhileASmallBodyArrivesTheLockIsFree(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			local, asked := lockmw.NewLocal(), make(chan struct{}, 1)
			key := func(*http.Request) (string, error) { asked <- struct{}{}; return "user:42", nil }
			site := webtest.NewSite(t, httpmw.WithLock(local, key, lockmw.WithWait(patience))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(w, r.Body); err != nil {
					t.Error(err)
				}
			})), edit)
			body, w := io.Pipe()
			go func() {
				_, _ = io.WriteString(w, "begin ")
				usertest.Receive(t, "the request arrives", asked)
				release := usertest.Occupy(t, local, "user:42")
				release()
				_, _ = io.WriteString(w, "end")
				_ = w.Close()
			}()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = int64(len("begin end"))
			resp, err := site.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "begin end" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

func TestAHandlerReadsAllOfTheBodyThatWasReadAhead(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if errors.As(err, new(*http.MaxBytesError)) {
			http.Error(w, "too long", http.StatusRequestEntityTooLarge)
			return
		}
		if _, after := r.Body.Read(make([]byte, 1)); after != io.EOF {
			t.Errorf("after the end: %v", after)
		}
		closed := r.Body.Close()
		if _, after := r.Body.Read(make([]byte, 1)); after == nil || err != nil || closed != nil {
			t.Errorf("%v, %v; after Close: %v", err, closed, after)
		}
		fmt.Fprint(w, n)
	})
	locked := httpmw.WithLock(lockmw.NewLocal(), func(r *http.Request) (string, error) { return r.URL.Path, nil }, lockmw.WithWait(patience))(echo)
	mux := http.NewServeMux()
	mux.Handle("/", locked)
	mux.Handle("/limited", http.MaxBytesHandler(locked, 100))
	mux.Handle("/doubled", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // like a middleware that decompresses
		r.Body = io.NopCloser(io.MultiReader(r.Body, strings.NewReader(strings.Repeat("y", 70_000))))
		locked.ServeHTTP(w, r)
	}))
	for protocol, edit := range webtest.Protocols {
		site := webtest.NewSite(t, mux, edit)
		for name, tt := range map[string]struct {
			path   string
			body   io.Reader
			header []string
			want   webtest.Answer
		}{
			"none":             {"/1", nil, nil, webtest.Answer{Status: 200, Body: "0"}},
			"short":            {"/2", strings.NewReader("hello"), nil, webtest.Answer{Status: 200, Body: "5"}},
			"the longest":      {"/3", strings.NewReader(strings.Repeat("x", 65536)), nil, webtest.Answer{Status: 200, Body: "65536"}},
			"too long":         {"/4", strings.NewReader(strings.Repeat("x", 65537)), nil, webtest.Answer{Status: 200, Body: "65537"}},
			"unknown length":   {"/5", bufio.NewReader(strings.NewReader("hello")), nil, webtest.Answer{Status: 200, Body: "5"}},
			"expects continue": {"/6", strings.NewReader("hello"), []string{"Expect", "100-continue"}, webtest.Answer{Status: 200, Body: "5"}},
			"over a limit":     {"/limited", strings.NewReader(strings.Repeat("x", 101)), nil, webtest.Answer{Status: 413, Body: "too long\n"}},
			"within a limit":   {"/limited", strings.NewReader(strings.Repeat("x", 100)), nil, webtest.Answer{Status: 200, Body: "100"}},
			"replaced":         {"/doubled", strings.NewReader("hello"), nil, webtest.Answer{Status: 200, Body: "70005"}},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				if a := site.Do(t, http.MethodPost, tt.path, tt.body, tt.header...); a.Status != tt.want.Status || a.Body != tt.want.Body {
					t.Errorf("status %d, %q; want %d, %q", a.Status, a.Body, tt.want.Status, tt.want.Body)
				}
			})
		}
	}
}

// A proxy closes the body while its transport may still read it. The race detector sees whether that is safe.
func TestABodyThatWasReadAheadMayBeClosedDuringARead(t *testing.T) {
	t.Parallel()
	proxy := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, r.Body)
		}()
		_ = r.Body.Close()
		<-read
	})
	for name, h := range map[string]http.Handler{
		"WithLock":   httpmw.WithLock(lockmw.NewLocal(), user42, lockmw.WithWait(patience))(proxy),
		"Idempotent": once(lockmw.NewLocal(), proxy),
	} {
		if rec := serve(h, keyed("k-1", strings.Repeat("x", 100))); rec.Code != http.StatusOK {
			t.Errorf("%s: status %d", name, rec.Code)
		}
	}
}

func TestARouteThatDoesNotWaitRefusesBeforeTheBodyArrives(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	site := webtest.NewSite(t, httpmw.WithLock(local, user42)(never(t)))
	conn := dial(t, site, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("status %d, want 409 without a 100 before it", resp.StatusCode)
	}
}

// The wait may also be the Locker's own default.
func TestARequestDoesNotOutliveItsDeadlineForASmallBody(t *testing.T) {
	t.Parallel()
	for name, server := range webtest.Servers {
		if name == "behind a stranger" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httpmw.WithLock(lockmw.NewLocal(lockmw.WithWait(patience)), user42)(never(t))
			site := webtest.NewSite(t, timeout(100*time.Millisecond)(server.Around(h)), server.Protocol)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site.URL, stalled(t, "begin"))
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = 100
			resp, err := site.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			wantProblem(t, webtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, 503, "lock-unavailable", true)
		})
	}
}

// BenchmarkAPost sends a small body, which the handler reads.
func BenchmarkAPost(b *testing.B) {
	for name, opts := range map[string][]httpmw.Option{"tries": nil, "waits": {lockmw.WithWait(time.Second)}} {
		b.Run(name, func(b *testing.B) {
			h := httpmw.WithLock(lockmw.NewLocal(), user42, opts...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "ok")
			}))
			w := webtest.HTTP1Writer{ResponseRecorder: httptest.NewRecorder()}
			text := strings.Repeat("x", 500)
			b.ReportAllocs()
			for b.Loop() {
				w.Body.Reset()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
			}
		})
	}
}
