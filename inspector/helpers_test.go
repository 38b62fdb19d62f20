package inspector_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A desk is a handler that is called without a network, with its Redis server.
type desk struct {
	*testing.T
	server *redistest.Server
	insp   *lockmw.Inspector
	page   http.Handler
}

func newDesk(t *testing.T, opts ...inspector.Option) *desk {
	t.Helper()
	return newDeskOn(t, redistest.Mini(t), opts...)
}

// newDeskOn is newDesk on a server. It discards the log.
func newDeskOn(t *testing.T, s *redistest.Server, opts ...inspector.Option) *desk {
	t.Helper()
	insp := usertest.Inspector(t, s.NewClient(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }))
	silent := inspector.WithLogger(slog.New(slog.DiscardHandler))
	return &desk{t, s, insp, inspector.Handler(insp, append([]inspector.Option{silent}, opts...)...)}
}

// inBubble runs test in a synctest bubble, so that minutes pass immediately.
func inBubble(t *testing.T, test func(d *desk), opts ...inspector.Option) {
	t.Helper()
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		t.Cleanup(func() { time.Sleep(2 * time.Minute) }) // until reads without viewers are cancelled
		test(newDeskOn(t, s, opts...))
	})
}

// through makes the handler connect to the server with these options from now on.
func (d *desk) through(opts ...func(*redis.Options)) {
	d.Helper()
	d.insp = usertest.Inspector(d, d.server.NewClient(d, opts...))
	d.page = inspector.Handler(d.insp)
}

func (d *desk) client() *lockmw.Client { return usertest.Client(d.T, d.server) }

// do sends a request; header has names and values in turn.
func (d *desk) do(method, path string, header ...string) *httptest.ResponseRecorder {
	d.Helper()
	return d.serve(httptest.NewRequest(method, path, nil), header...)
}

func (d *desk) serve(r *http.Request, header ...string) *httptest.ResponseRecorder {
	d.Helper()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, r)
	return w
}

// get returns a page and checks its status. It retries, because on a busy machine Redis may not have answered yet.
func (d *desk) get(path string, status int) string {
	d.Helper()
	w := d.do(http.MethodGet, path)
	for began := time.Now(); w.Code == http.StatusServiceUnavailable && status != w.Code && time.Since(began) < time.Minute; {
		w = d.do(http.MethodGet, path)
	}
	if w.Code != status {
		d.Errorf("GET %.200s: %d, want %d\n%.2000s", path, w.Code, status, w.Body)
	}
	return w.Body.String()
}

// A lockJSON has some of the JSON fields of a lock.
type lockJSON struct {
	Key, Href, Mode, State string
	Holders                []struct {
		Owner, Process, Label, Slots string
		Token                        int64
		LeaseLeft                    int    `json:"lease_left_ms"`
		TraceURL                     string `json:"trace_url"`
		Weight                       int
		Lingers                      bool
	}
	Waiting     int
	LongestWait *int `json:"longest_wait_ms"`
	Waiters     []struct {
		Position, Calls int
		Label, Process  string
		Waited          *int `json:"waited_ms"`
	}
	Kept []struct {
		Name    string
		KeptFor int `json:"kept_for_ms"`
	} `json:"kept_places"`
	Tasks []struct {
		Queue, ID, State string
		Place            int
		Waited           int `json:"waited_ms"`
	}
	MoreTasks int `json:"more_tasks"`
	Record    *struct {
		State, Outcome string
		Status         int
		Began, Ended   *time.Time
		KeptFor        int `json:"kept_for_ms"`
	}
	Error *errorJSON
}

type errorJSON struct{ Type, Message string }

type locksJSON struct {
	Prefix   string
	AsOf     *string `json:"as_of"`
	Complete bool
	Totals   struct{ Locks, Held, Contended, Lingering, Unreadable, Waiting int }
	Matched  int
	Page     int
	Pages    int
	Locks    []lockJSON
	Lock     lockJSON
	Servers  []struct {
		Version string
		Error   *errorJSON
	}
	Prefixes []string
	Error    *errorJSON
}

// json returns an answer in JSON and checks its status.
func (d *desk) json(path string, status int) (a locksJSON) {
	d.Helper()
	text := d.get(path, status)
	for began := time.Now(); status == http.StatusOK && strings.Contains(text, `"complete": false`) && time.Since(began) < time.Minute; { // as in get
		text = d.get(path, status)
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		d.Fatalf("GET %s: %v\n%s", path, err, text)
	}
	return a
}

// keys returns the keys of an answer, in its order.
func (a *locksJSON) keys() (keys []string) {
	for _, l := range a.Locks {
		keys = append(keys, l.Key)
	}
	return keys
}

// wait starts a call that waits for key until the test ends, and returns once the call waits.
func (d *desk) wait(l lockmw.Locker, key string, opts ...lockmw.Option) {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	contended, waits := usertest.OnContended(d)
	go func() {
		defer close(done)
		if _, hold, err := l.Lock(ctx, key, append(opts, contended)...); err == nil {
			_ = hold.Unlock()
		}
	}()
	d.Cleanup(func() {
		cancel()
		<-done
	})
	waits()
}
