package inspector_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A watcher reads a stream of changes.
type watcher struct {
	*desk
	events chan string // closed when the stream has ended
	cancel context.CancelFunc
}

// watch opens a stream, and closes it when the test ends.
func (d *desk) watch(query string) *watcher {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/live?"+query, nil)
	if err != nil {
		d.Fatal(err)
	}
	in, out := io.Pipe()
	w := &watcher{d, make(chan string, 10_000), cancel}
	go func() {
		d.page.ServeHTTP(&streamWriter{make(http.Header), out}, r)
		out.Close()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.events)
		var event strings.Builder
		for lines := bufio.NewScanner(in); lines.Scan(); {
			switch text, isData := strings.CutPrefix(lines.Text(), "data: "); {
			case isData:
				event.WriteString(text + "\n")
			case lines.Text() == "" && event.Len() > 0:
				w.events <- event.String()
				event.Reset()
			}
		}
	}()
	d.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

type streamWriter struct {
	header http.Header
	io.Writer
}

func (w *streamWriter) Header() http.Header { return w.header }
func (w *streamWriter) WriteHeader(int)     {}
func (w *streamWriter) Flush()              {}

// until reads changes until one contains a text, and returns it.
func (w *watcher) until(text string) string {
	w.Helper()
	var last string
	for event := range w.events {
		if last = event; strings.Contains(event, text) {
			return event
		}
	}
	w.Fatalf("the stream ended without %q; the last change was\n%s", text, last)
	return ""
}

func TestAStreamShowsWhatChanges(t *testing.T) {
	inBubble(t, func(d *desk) {
		overview, key := d.watch("page=overview"), d.watch("page=key&key=user:42")
		overview.until("No locks with prefix")
		key.until("Nobody holds this lock")
		began := time.Now()
		_, hold := usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithLabel("req-1"))
		ctx, cancel := context.WithCancel(d.Context())
		other := d.client()
		contended, waits := usertest.OnContended(d)
		go func() { _, _, _ = other.Lock(ctx, "user:42", lockmw.WithLabel("req-2"), contended) }()
		waits()
		overview.until(`<span class="badge contended">`)
		key.until("req-2")
		if took := time.Since(began); took > 2*time.Second {
			d.Errorf("it took %v until the contention was seen", took)
		}
		began = time.Now()
		cancel()
		usertest.Unlock(d, hold)
		overview.until("No locks with prefix")
		key.until("Nobody holds this lock")
		if took := time.Since(began); took > 2*time.Second {
			d.Errorf("it took %v until the end of the contention was seen", took)
		}
	})
}

func TestAStreamEndsAfterAMinute(t *testing.T) {
	inBubble(t, func(d *desk) {
		began := time.Now()
		for range d.watch("page=overview").events {
		}
		if took := time.Since(began); took != time.Minute {
			d.Errorf("it lasted %v", took)
		}
	})
}

// Without viewers nothing is read, and the number of reads does not depend on the number of viewers.
func TestViewersShareWhatIsRead(t *testing.T) {
	inBubble(t, func(d *desk) {
		usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithFixedLease(time.Hour))
		time.Sleep(time.Minute) // until the client sends nothing more
		sent := func(viewers int) int {
			wire := d.server.NewWire()
			wire.Record()
			d.through(wire.Use)
			var all []*watcher
			for i := range viewers {
				all = append(all, d.watch("page=overview"), d.watch("page=key&key=user:42"), d.watch(fmt.Sprintf("page=overview&q=%d", i)))
			}
			time.Sleep(30 * time.Second)
			for _, w := range all {
				w.cancel()
			}
			synctest.Wait()
			n := len(wire.Sent())
			time.Sleep(time.Minute)
			if left := len(wire.Sent()); left != n {
				d.Errorf("%d commands without viewers", left-n)
			}
			return n
		}
		one, many := sent(1), sent(20)
		if one < 60 || many > one+one/10 {
			d.Errorf("%d commands for one viewer, %d for twenty", one, many)
		}
	})
}

// A slowConn is a connection to a distant server.
type slowConn struct {
	net.Conn
	busy *atomic.Int64 // total time of requests on all connections
	now  *atomic.Int64 // number of running requests
	most *atomic.Int64
}

func (c slowConn) Write(b []byte) (int, error) {
	const far = 30 * time.Millisecond
	c.busy.Add(int64(far))
	for n := c.now.Add(1); n > c.most.Load(); { // a race here is harmless
		c.most.Store(n)
	}
	defer c.now.Add(-1)
	time.Sleep(far)
	return c.Conn.Write(b)
}

// farAway gives the handler a slow connection to its server. It returns the total time of its requests.
func (d *desk) farAway() *atomic.Int64 {
	d.Helper()
	busy, _ := d.farAwayTogether()
	return busy
}

// farAwayTogether also returns the maximum number of concurrent requests.
func (d *desk) farAwayTogether() (busy, most *atomic.Int64) {
	d.Helper()
	busy, most = new(atomic.Int64), new(atomic.Int64)
	now := new(atomic.Int64)
	d.through(func(o *redis.Options) {
		dial := o.Dialer
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return slowConn{conn, busy, now, most}, err
		}
	})
	return busy, most
}

// A page does not wait for all of very many locks, but the read continues.
func TestAReloadContinuesTheReadOfTheLastOne(t *testing.T) {
	inBubble(t, func(d *desk) {
		d.farAway()
		locks := d.client()
		for i := range 1200 {
			usertest.Lock(d, d.Context(), locks, fmt.Sprintf("item:%d", i), lockmw.WithFixedLease(time.Hour))
		}
		if page := d.get("/", http.StatusOK); !strings.Contains(page, "Still reading: ") {
			d.Errorf("after %v the page is\n%.3000s", 3*time.Second, page)
		}
		time.Sleep(10 * time.Second)
		if a := d.json("/locks.json", http.StatusOK); !a.Complete || a.Matched != 1200 {
			d.Errorf("ten seconds later, %d locks are listed, complete: %v", a.Matched, a.Complete)
		}
	})
}

// All locks of a slow server are read rarely, but its queues more often.
func TestContentionIsShownWhileReadingAllLocksTakesLong(t *testing.T) {
	inBubble(t, func(d *desk) {
		busy := d.farAway()
		locks, other := d.client(), d.client()
		for i := range 500 {
			usertest.Lock(d, d.Context(), locks, fmt.Sprintf("item:%d", i), lockmw.WithFixedLease(time.Hour))
		}
		w := d.watch("page=overview")
		w.until(">500 locks, page 1 of 5<")
		began, asOf := time.Now(), *d.json("/locks.json", http.StatusOK).AsOf
		ctx, cancel := context.WithCancel(d.Context())
		contended, waits := usertest.OnContended(d)
		go func() { _, _, _ = other.Lock(ctx, "item:7", contended) }()
		waits()
		w.until(`<span class="badge contended">`)
		cancel()
		for event := range w.events {
			if !strings.Contains(event, `<span class="badge contended">`) {
				break
			}
		}
		if took := time.Since(began); took > 40*time.Second {
			d.Errorf("it took %v to see the contention come and go", took)
		}
		if a := d.json("/locks.json", http.StatusOK); *a.AsOf != asOf || a.Totals.Held != 500 {
			d.Errorf("all locks were read again: the test shows nothing: %+v", a.Totals)
		}
		before := busy.Load()
		for range 10 {
			for range d.watch("page=overview&q=nothing").events {
			}
		}
		if share := float64(busy.Load()-before) / float64(10*time.Minute); share > 0.0135 {
			d.Errorf("the server is asked for %.2f %% of the time", 100*share)
		}
	})
}

func TestReloadsReadNoMoreThanAStream(t *testing.T) {
	inBubble(t, func(d *desk) {
		wire := d.server.NewWire()
		wire.Record()
		d.through(wire.Use)
		usertest.Lock(d, d.Context(), d.client(), "user:42")
		for range 100 {
			d.get("/", http.StatusOK)
			d.get("/key?key=user:42", http.StatusOK)
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(wire.Sent()); n > 30 {
			d.Errorf("%d commands in a second", n)
		}
	})
}

func TestAnUnreachableServerIsShownWithTheLastState(t *testing.T) {
	inBubble(t, func(d *desk) {
		usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithFixedLease(time.Hour))
		d.get("/", http.StatusOK)
		d.get("/key?key=user:42", http.StatusOK)
		d.get("/redis", http.StatusOK)
		d.server.Mini.SetError("LOADING Redis is loading the dataset in memory")
		defer d.server.Mini.SetError("")
		for _, path := range []string{"/", "/key?key=user:42"} {
			d.await(path, "notice alarm")
			if page := d.get(path, http.StatusServiceUnavailable); !strings.Contains(page, "user:42") || !strings.Contains(page, "LOADING") {
				d.Errorf("%s:\n%s", path, page)
			}
		}
		if a := d.json("/locks.json", http.StatusServiceUnavailable); len(a.Locks) != 1 || a.Error == nil || a.Error.Type != "lock_unavailable" || a.AsOf == nil {
			d.Errorf("in JSON it is %+v", a)
		}
		usertest.Eventually(d, "the page of the server says so", time.Minute, func() bool {
			return d.do(http.MethodGet, "/redis.json").Code == http.StatusServiceUnavailable
		})
		d.server.Mini.SetError("")
		usertest.Eventually(d, "the page shows the state of now", time.Minute, func() bool { return !strings.Contains(d.get("/", http.StatusOK), "notice alarm") })
	})
}

// await reloads a page until it contains a text.
func (d *desk) await(path, text string) {
	d.Helper()
	usertest.Eventually(d, path+" says "+text, time.Minute, func() bool {
		return strings.Contains(d.do(http.MethodGet, path).Body.String(), text)
	})
}

func TestAServerThatNeverAnsweredIsUnavailable(t *testing.T) {
	s := redistest.Mini(t)
	s.Mini.Close()
	d := newDeskOn(t, s)
	for _, path := range []string{"/", "/key?key=user:42", "/redis"} {
		d.await(path, "Redis could not be read")
		d.get(path, http.StatusServiceUnavailable)
	}
	for _, path := range []string{"/locks.json", "/key.json?key=user:42", "/redis.json"} {
		if a := d.json(path, http.StatusServiceUnavailable); a.Error == nil || a.AsOf != nil {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

func TestASilentServerIsReported(t *testing.T) {
	inBubble(t, func(d *desk) {
		wire := d.server.NewWire()
		d.through(wire.Use)
		usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithFixedLease(time.Hour))
		w := d.watch("page=overview")
		w.until("user:42")
		wire.Silence()
		if event := w.until("Redis has not answered for"); !strings.Contains(event, "user:42") {
			d.Errorf("the last state is missing:\n%s", event)
		}
		d.json("/locks.json", http.StatusServiceUnavailable)
		wire.Restore()
		for event := range w.events {
			if !strings.Contains(event, "notice alarm") {
				return
			}
		}
		d.Error("it is never shown that the server is back")
	})
}

func TestMissingRightsAreNamed(t *testing.T) {
	s := redistest.Redis(t)
	admin := s.NewClient(t)
	acl := []any{"ACL", "SETUSER", "default", "-scan", "-info"}
	if err := admin.Do(t.Context(), acl...).Err(); err != nil {
		t.Fatal(err)
	}
	d := newDeskOn(t, s)
	d.await("/", "NOPERM")
	if page := d.get("/", http.StatusServiceUnavailable); !strings.Contains(page, "&#43;scan") || !strings.Contains(page, `href="https://github.com/lockmw/go/blob/main/docs/operations.md#access-rights"`) {
		t.Errorf("without SCAN:\n%s", page)
	}
	if a := d.json("/redis.json", http.StatusOK); len(a.Servers) != 1 || a.Servers[0].Error == nil || a.Servers[0].Version != "" {
		t.Errorf("without INFO: %+v", a)
	}
	d.await("/redis", "INFO failed")
	d.await("/redis", "The prefixes could not be read")
	if l := d.json("/key.json?key=user:42", http.StatusOK).Lock; l.State != "free" {
		t.Errorf("one key without SCAN: %+v", l)
	}
}

func TestTheServerIsShown(t *testing.T) {
	d := newDeskOn(t, redistest.Redis(t))
	usertest.Occupy(t, d.client(), "user:42")
	d.await("/redis.json", `"lockmw"
  ]`)
	a := d.json("/redis.json", http.StatusOK)
	if len(a.Servers) != 1 || a.Servers[0].Version == "" || fmt.Sprint(a.Prefixes) != "[lockmw]" {
		t.Errorf("the server is %+v", a)
	}
	host, _, _ := net.SplitHostPort(d.server.Addr())
	if page := d.get("/redis", http.StatusOK); !strings.Contains(page, a.Servers[0].Version) || !strings.Contains(page, host) {
		t.Errorf("the page is\n%s", page)
	}
}

func TestAnEmptyPageNamesThePrefixesInUse(t *testing.T) {
	d := newDesk(t)
	usertest.Occupy(t, usertest.Client(t, d.server, lockmw.WithPrefix("shop")), "user:42")
	d.await("/", "Other prefixes in use")
	page := d.get("/", http.StatusOK)
	if !strings.Contains(page, "No locks with prefix <code>lockmw</code>") || !strings.Contains(page, "Other prefixes in use: <code>shop</code>") {
		t.Errorf("the page is\n%s", page)
	}
}
