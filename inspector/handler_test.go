package inspector_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A client that does not read would occupy a place for requests.
func TestAnAnswerHasToBeReadInTime(t *testing.T) {
	d := newDesk(t)
	for _, path := range []string{"/", "/locks.json", "/key", "/key.json"} {
		w := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
		d.page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if left := time.Until(w.deadline); left <= 0 || left > time.Minute {
			t.Errorf("%s: the answer may take %v", path, left)
		}
	}
}

type timedWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *timedWriter) SetWriteDeadline(at time.Time) error {
	w.deadline = at
	return nil
}

func TestAllLocksAreShown(t *testing.T) {
	d := newDesk(t)
	web, worker := d.client(), d.client()
	usertest.Lock(d, d.Context(), web, "user:42", lockmw.WithLabel("req-1"))
	usertest.Lock(d, d.Context(), fairlock.New(web), "user:7")
	usertest.Lock(d, d.Context(), rwlock.New(web).RLocker(), "doc:1")
	usertest.Lock(d, d.Context(), semaphore.New(web, 3), "export", lockmw.WithWeight(2))
	_, hold := usertest.Lock(d, d.Context(), web, "click", lockmw.WithMinHold(time.Hour))
	usertest.Unlock(d, hold)
	d.wait(worker, "user:42", lockmw.WithLabel("task-1"))
	a := d.json("/locks.json", http.StatusOK)
	if want := []string{"user:42", "click", "doc:1", "export", "user:7"}; !slices.Equal(a.keys(), want) || a.Matched != 5 || !a.Complete {
		t.Errorf("locks %q, %d match, want %q", a.keys(), a.Matched, want)
	}
	states := make(map[string]string)
	for _, l := range a.Locks {
		states[l.Key] = l.Mode + " " + l.State
	}
	for key, want := range map[string]string{
		"user:42": "exclusive contended", "user:7": "fair held", "doc:1": "read held", "export": "permit held", "click": "exclusive lingering",
	} {
		if states[key] != want {
			t.Errorf("%s is %q, want %q", key, states[key], want)
		}
	}
	if n := a.Totals; n.Locks != 5 || n.Held != 4 || n.Contended != 1 || n.Lingering != 1 || n.Waiting != 1 {
		t.Errorf("totals %+v", n)
	}
	first := a.Locks[0]
	if h := first.Holders[0]; h.Label != "req-1" || h.LeaseLeft <= 0 || h.LeaseLeft > 30000 || h.Token <= 0 {
		t.Errorf("the holder is %+v", h)
	}
	if first.LongestWait == nil {
		t.Error("the longest wait is missing")
	}
	page := d.get("/", http.StatusOK)
	for _, want := range []string{">req-1<", ">contended<", ">lingering<", ">5 locks<", `href="key?key=user%3A42"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestOneLockIsShown(t *testing.T) {
	d := newDesk(t, inspector.WithTraceURL("https://jaeger.example.com/trace/{trace_id}?span={span_id}"))
	web, worker := d.client(), d.client()
	const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	traced := lockmw.WithObserver(&lockmw.Observer{TraceParent: func(context.Context) string { return "00-" + traceID + "-" + spanID + "-01" }})
	usertest.Lock(d, d.Context(), fairlock.New(web), "user:42", lockmw.WithLabel("req-1"), traced)
	d.wait(fairlock.New(worker), "user:42", lockmw.WithLabel("task-1"))
	d.wait(fairlock.New(worker), "user:42", lockmw.WithLabel("task-2"))
	l := d.json("/key.json?key=user:42", http.StatusOK).Lock
	if len(l.Holders) != 1 || len(l.Waiters) != 2 || l.Waiters[0].Label != "task-1" || l.Waiters[0].Position != 1 || l.Waiters[1].Position != 2 {
		t.Fatalf("the lock is %+v", l)
	}
	if want := "https://jaeger.example.com/trace/" + traceID + "?span=" + spanID; l.Holders[0].TraceURL != want {
		t.Errorf("the trace is at %q, want %q", l.Holders[0].TraceURL, want)
	}
	page := d.get("/key?key=user:42", http.StatusOK)
	for _, want := range []string{traceID, ">task-1<", ">task-2<", fmt.Sprint(l.Holders[0].Token)} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "force-unlock") {
		t.Error("the page offers a release, which nobody may do")
	}
	if page := d.get("/key?key=other", http.StatusOK); !strings.Contains(page, "Nobody holds this lock") {
		t.Errorf("the page of a free lock:\n%s", page)
	}
	d.get("/key", http.StatusNotFound)
	d.get("/key?key="+strings.Repeat("x", 1025), http.StatusNotFound)
}

func TestKeptPlacesAndPermitsAreShown(t *testing.T) {
	inBubble(t, func(d *desk) {
		web := d.client()
		usertest.Lock(d, d.Context(), semaphore.New(web, 3), "export", lockmw.WithWeight(2))
		if h := d.json("/key.json?key=export", http.StatusOK).Lock.Holders[0]; h.Weight != 2 || h.Slots != "0-1" {
			d.Errorf("the permit is %+v", h)
		}
		fair := fairlock.New(web)
		usertest.Lock(d, d.Context(), fair, "user:42")
		usertest.Refused(d, d.Context(), fair, "user:42", lockmw.WithPlace("task <7>", time.Minute), lockmw.WithWait(50*time.Millisecond))
		d.await("/key?key=user:42", "Kept places")
		if k := d.json("/key.json?key=user:42", http.StatusOK).Lock.Kept; len(k) != 1 || k[0].Name != "task <7>" || k[0].KeptFor > 60_000 || k[0].KeptFor <= 0 {
			d.Errorf("the kept places are %+v", k)
		}
		if page := d.get("/key?key=user:42", http.StatusOK); !strings.Contains(page, "task &lt;7&gt;") {
			d.Errorf("the page has no kept place:\n%s", page)
		}
	})
}

func TestLocksAreFilteredAndSorted(t *testing.T) {
	d := newDesk(t)
	web, worker := d.client(), d.client()
	for _, key := range []string{"a:1", "a:2", "b:1"} {
		usertest.Lock(d, d.Context(), web, key, lockmw.WithLabel("label-of-"+key))
	}
	usertest.Lock(d, d.Context(), fairlock.New(worker), "b:2")
	d.wait(worker, "a:2")
	d.wait(worker, "b:1")
	d.wait(d.client(), "b:1") // a third process, because a process reports its number of waiting calls only after a while
	process := d.json("/key.json?key=b:2", http.StatusOK).Lock.Holders[0].Process
	for query, want := range map[string]string{
		"": "b:1 a:2 a:1 b:2", "sort=-waiting": "a:1 b:2 a:2 b:1", "sort=key": "a:1 a:2 b:1 b:2", "sort=-key": "b:2 b:1 a:2 a:1",
		"sort=wait": "a:2 b:1 a:1 b:2", "sort=held": "a:1 a:2 b:1 b:2", "sort=mode&q=b:": "b:1 b:2",
		"q=a:": "a:2 a:1", "q=label-of-b": "b:1", "q=" + url.QueryEscape(process) + "&sort=key": "a:2 b:1 b:2", "q=nothing": "",
		"mode=fair": "b:2", "state=contended&sort=key": "a:2 b:1", "state=held&sort=key": "a:1 a:2 b:1 b:2", "state=lingering": "",
		"page=7&sort=key": "a:1 a:2 b:1 b:2",
	} {
		a := d.json("/locks.json?"+query, http.StatusOK)
		if got := strings.Join(a.keys(), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if page := d.get("/?q=nothing", http.StatusOK); !strings.Contains(page, "No lock matches") {
		t.Errorf("nothing matches:\n%s", page)
	}
}

func TestManyLocksHavePages(t *testing.T) { inBubble(t, turnPages) }

func turnPages(d *desk) {
	web := d.client()
	for i := range 250 {
		usertest.Lock(d, d.Context(), web, fmt.Sprintf("item:%03d", i), lockmw.WithFixedLease(time.Hour))
	}
	for n, want := range map[int]int{1: 100, 2: 100, 3: 50} {
		a := d.json(fmt.Sprintf("/locks.json?sort=key&page=%d", n), http.StatusOK)
		if len(a.Locks) != want || a.Page != n || a.Pages != 3 || a.Locks[0].Key != fmt.Sprintf("item:%03d", (n-1)*100) {
			d.Errorf("page %d of %d has %d locks from %s on", a.Page, a.Pages, len(a.Locks), a.Locks[0].Key)
		}
	}
	if page := d.get("/?sort=key&page=2", http.StatusOK); !strings.Contains(page, `href="./?page=3&amp;sort=key"`) || !strings.Contains(page, `href="./?sort=key"`) {
		d.Errorf("page 2 leads not to its neighbours:\n%s", page)
	}
}

func TestAStreamHasTheQueryOfItsPage(t *testing.T) {
	inBubble(t, func(d *desk) {
		web := d.client()
		for i := range 150 {
			usertest.Lock(d, d.Context(), web, fmt.Sprintf("item:%03d", i), lockmw.WithFixedLease(time.Hour))
		}
		_, link, _ := strings.Cut(d.get("/?sort=key&page=2", http.StatusOK), `data-live="live?`)
		link, _, _ = strings.Cut(link, `"`)
		if event := d.watch(html.UnescapeString(link)).until("150 locks"); !strings.Contains(event, "page 2 of 2") || !strings.Contains(event, "item:149") {
			d.Errorf("the change is\n%s", event)
		}
	})
}

// mounts are ways to mount the handler.
var mounts = map[string]func(page http.Handler) http.Handler{
	"StripPrefix": func(page http.Handler) http.Handler { return http.StripPrefix("/ops/locks", page) },
	"ServeMux": func(page http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/ops/locks/", page)
		mux.Handle("/ops/locks", page)
		return mux
	},
	"chi": func(page http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Mount("/ops/locks", page)
		return r
	},
	"chi in chi": func(page http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Route("/ops", func(r chi.Router) { r.Mount("/locks", http.StripPrefix("/ops/locks", page)) })
		return r
	},
}

func TestLinksAreRightWhereverThePageIsMounted(t *testing.T) {
	for name, mount := range mounts {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			usertest.Lock(d, d.Context(), d.client(), "user:42")
			d.page = mount(d.page)
			w := d.do(http.MethodGet, "/ops/locks?q=user")
			to, err := (&url.URL{Path: "/ops/locks"}).Parse(w.Header().Get("Location"))
			if err != nil || w.Code != http.StatusFound || to.String() != "/ops/locks/?q=user" {
				t.Errorf("without a slash: %d, to %v, %v", w.Code, to, err)
			}
			for _, from := range []string{"/ops/locks/", "/ops/locks/key?key=user:42", "/ops/locks/process", "/ops/locks/redis"} {
				for _, link := range linksOf(d.get(from, http.StatusOK)) {
					base, _ := url.Parse(from)
					to, err := base.Parse(link)
					if err != nil || !strings.HasPrefix(to.Path, "/ops/locks/") {
						t.Errorf("%s links to %q", from, link)
						continue
					}
					if strings.Contains(to.Path, "live") && !strings.HasSuffix(to.Path, ".js") {
						continue // the stream does not end
					}
					d.get(to.String(), http.StatusOK)
				}
			}
		})
	}
}

// linksOf returns all links of a page.
func linksOf(page string) (links []string) {
	for _, part := range strings.Split(page, `="`)[1:] {
		value, _, _ := strings.Cut(part, `"`)
		if strings.HasPrefix(value, "./") || strings.HasPrefix(value, "key?") || strings.HasPrefix(value, "process") || value == "redis" || strings.HasSuffix(value, ".css") ||
			strings.HasSuffix(value, ".js") || strings.HasSuffix(value, ".svg") || strings.HasPrefix(value, "live?") {
			links = append(links, strings.ReplaceAll(value, "&amp;", "&"))
		}
	}
	return links
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	d := newDesk(t)
	for _, path := range []string{"/nothing.json", "/favicon.ico", "/ops/style.css.map"} {
		d.get(path, http.StatusNotFound)
	}
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	d := newDesk(t)
	for _, tt := range []struct{ method, path, allowed string }{
		{http.MethodPost, "/key?key=a", "GET, HEAD"},
		{http.MethodPut, "/key?key=a", "GET, HEAD"},
		{http.MethodDelete, "/key?key=a", "GET, HEAD"},
		{http.MethodPut, "/force-unlock", "GET, HEAD, POST"},
		{http.MethodPut, "/release-process", "GET, HEAD, POST"},
	} {
		w := d.do(tt.method, tt.path)
		if got := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed || got != tt.allowed {
			t.Errorf("%s %s: %d, allowed %q", tt.method, tt.path, w.Code, got)
		}
	}
}

// A stream would last for a minute.
func TestHEADOfAStreamReturns(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := d.serve(httptest.NewRequestWithContext(ctx, http.MethodHead, "/live?page=overview", nil))
	if ctx.Err() != nil || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v, %v", ctx.Err(), w.Header())
	}
}

func TestPagesForbidForeignAndInlineScripts(t *testing.T) {
	d := newDesk(t)
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	for _, path := range []string{"/", "/key?key=user:42", "/redis", "/key", "/locks.json", "/style.css", "/live.js", "/icon.svg"} {
		w := d.do(http.MethodGet, path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		body := w.Body.String()
		if strings.Contains(body, "<style") || strings.Contains(body, "style=") || strings.Contains(body, "onclick") ||
			strings.Count(body, "<script") != strings.Count(body, `<script src="live.js" defer></script>`) {
			t.Errorf("%s has something inline:\n%s", path, body)
		}
	}
}

func TestHandlerPanicsForInvalidOptions(t *testing.T) {
	for name, call := range map[string]func(){
		"no Inspector":   func() { inspector.Handler(nil) },
		"a nil option":   func() { inspector.Handler(newDesk(t).insp, nil) },
		"no trace id":    func() { inspector.WithTraceURL("https://jaeger.example.com/trace") },
		"a script":       func() { inspector.WithTraceURL("javascript:alert({trace_id})") },
		"a relative URL": func() { inspector.WithTraceURL("/trace/{trace_id}") },
		"nobody":         func() { inspector.WithForceUnlock(nil) },
		"no redactor":    func() { inspector.WithKeyRedactor(nil) },
		"a short secret": func() { inspector.WithSecret(make([]byte, 15)) },
		"no logger":      func() { inspector.WithLogger(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "inspector: ") {
					t.Errorf("panic %q", text)
				}
			}()
			call()
		})
	}
}

func TestAHEADRequestHasNoBody(t *testing.T) {
	site := httptest.NewServer(newDesk(t).page)
	defer site.Close()
	resp, err := site.Client().Head(site.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}
