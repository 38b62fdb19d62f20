package slowclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/slowclient"
)

// A conn is a ResponseWriter and a body whose client neither sends nor receives.
type conn struct {
	http.ResponseWriter
	mu          sync.Mutex
	read, write time.Time // the deadlines
	set         int       // how often one was set
	changed     chan struct{}
}

func newConn() *conn {
	return &conn{ResponseWriter: httptest.NewRecorder(), changed: make(chan struct{}, 100)}
}

func (c *conn) setDeadline(which *time.Time, d time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	*which = d
	c.set++
	c.changed <- struct{}{}
	return nil
}

func (c *conn) SetReadDeadline(d time.Time) error  { return c.setDeadline(&c.read, d) }
func (c *conn) SetWriteDeadline(d time.Time) error { return c.setDeadline(&c.write, d) }

// wait waits until the deadline has passed.
func (c *conn) wait(which *time.Time) error {
	for {
		c.mu.Lock()
		d := *which
		c.mu.Unlock()
		var over <-chan time.Time
		if !d.IsZero() {
			over = time.After(time.Until(d))
		}
		select {
		case <-over:
			return os.ErrDeadlineExceeded
		case <-c.changed:
		}
	}
}

func (c *conn) Read([]byte) (int, error)  { return 0, c.wait(&c.read) }
func (c *conn) Close() error              { return nil }
func (c *conn) Write([]byte) (int, error) { return 0, c.wait(&c.write) }

// sets returns how often a deadline was set, and those that there are.
func (c *conn) sets() (set int, read, write time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set, c.read, c.write
}

var errEnded = errors.New("ended")

// after returns a context that ends with errEnded after d. It belongs to a request to the server, which may be nil.
func after(t *testing.T, d time.Duration, server *http.Server) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	if server != nil {
		ctx = context.WithValue(ctx, http.ServerContextKey, server)
	}
	time.AfterFunc(d, func() { cancel(errEnded) })
	return ctx
}

func TestAReadEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := newConn(), time.Now()
		g := slowclient.New(after(t, time.Minute, nil), c, time.Now(), nil)
		body := g.Body(c)
		for range 2 { // the second read fails immediately
			if _, err := body.Read(make([]byte, 1)); !errors.Is(err, errEnded) || time.Since(began) != time.Minute {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		g.Close()
		if set, read, write := c.sets(); set != 1 || !read.Before(began) || !write.IsZero() {
			t.Errorf("%d deadlines were set: %v, %v", set, read, write)
		}
	})
}

func TestAWriteMayTakeASecondMore(t *testing.T) {
	for name, tt := range map[string]struct {
		server *http.Server
		took   time.Duration
	}{
		"without a timeout of the server's": {nil, time.Minute + slowclient.LastWrite},
		"with a later one":                  {&http.Server{WriteTimeout: time.Hour}, time.Minute + slowclient.LastWrite},
		"with an earlier one":               {&http.Server{WriteTimeout: time.Minute + 300*time.Millisecond}, time.Minute + 300*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, began := newConn(), time.Now()
				g := slowclient.New(after(t, time.Minute, tt.server), c, time.Now(), nil)
				write := func() time.Duration {
					g.BeginWrite()
					defer g.EndWrite()
					start := time.Now()
					_, _ = c.Write(nil)
					return time.Since(start)
				}
				if took := write(); took != tt.took {
					t.Errorf("the write took %v, want %v", took, tt.took)
				}
				want := time.Time{}
				if tt.server != nil {
					want = began.Add(tt.server.WriteTimeout)
				}
				if _, _, deadline := c.sets(); !deadline.Equal(want) {
					t.Errorf("the deadline afterwards is %v, want the server's: %v", deadline, want)
				}
				if took := write(); took > slowclient.LastWrite {
					t.Errorf("another write took %v", took)
				}
				g.Close()
			})
		})
	}
}

// net/http reads the rest of the body when it writes the header of a response.
func TestAWriteThatReadsTheBodyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := newConn(), time.Now()
		g := slowclient.New(after(t, time.Minute, nil), c, time.Now(), nil)
		_ = g.Body(c)
		g.BeginWrite()
		_, _ = c.Read(nil)
		g.EndWrite()
		if took := time.Since(began); took != time.Minute+slowclient.LastWrite/2 {
			t.Errorf("the write took %v", took)
		}
		if _, read, write := c.sets(); !read.IsZero() || !write.IsZero() {
			t.Errorf("deadlines are left: %v, %v", read, write)
		}
		g.Close()
	})
}

// The server or other middleware may have set deadlines.
func TestNoDeadlineIsChangedWithoutNeed(t *testing.T) {
	quick := func(g *slowclient.Guard) {
		_, _ = io.ReadAll(g.Body(io.NopCloser(strings.NewReader("hello"))))
		g.BeginWrite()
		g.EndWrite()
	}
	for name, use := range map[string]func(g *slowclient.Guard){
		"nothing waits":                 func(*slowclient.Guard) {},
		"all is done before":            quick,
		"the handler has returned":      func(g *slowclient.Guard) { quick(g); g.Close() },
		"the connection was taken over": func(g *slowclient.Guard) { g.Close(); g.BeginWrite() },
		"only the body has ended":       func(g *slowclient.Guard) { quick(g); time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConn()
				g := slowclient.New(after(t, time.Minute, &http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second}), c, time.Now(), nil)
				use(g)
				time.Sleep(time.Hour)
				synctest.Wait()
				g.Close()
				if set, _, _ := c.sets(); set != 0 {
					t.Errorf("%d deadlines were set", set)
				}
			})
		})
	}
}

func TestAnEndThatDoesNotMatterHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn()
		g := slowclient.New(after(t, time.Minute, nil), c, time.Now(), func(cause error) bool { return errors.Is(cause, errEnded) })
		g.BeginWrite()
		time.Sleep(time.Hour)
		g.EndWrite()
		if b, err := io.ReadAll(g.Body(io.NopCloser(strings.NewReader("hello")))); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		g.Close()
		if set, _, _ := c.sets(); set != 0 {
			t.Errorf("%d deadlines were set", set)
		}
	})
}

func TestAnEmptyBodyIsReturnedUnchanged(t *testing.T) {
	g := slowclient.New(t.Context(), httptest.NewRecorder(), time.Now(), nil)
	if g.Body(nil) != nil || g.Body(http.NoBody) != http.NoBody {
		t.Error("the body was wrapped")
	}
}
