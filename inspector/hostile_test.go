package inspector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/tracing"
)

// hostile has keys that an attacker may choose.
var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "'\"`${7*7}{{7*7}}", "two\nlines\r\ttabbed", "\x00\x1b[31mred", "bytes\xff\xfe",
	"a/../../b", "..", "%2f%2e%2e", "a b+c&d=e#f?g", "javascript:alert(1)", "\u202egnirts", "räksmörgås 🔒", strings.Repeat("x", 1024),
	strings.Repeat("\xff", 1024), "</table></main>", "{}", "data: x\n\ndata: y", "key.json",
}

func TestKeysAreEscapedInPages(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		keys := hostile
		if s.Mini != nil { // miniredis does not support other patterns
			keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !utf8.ValidString(key) })
		}
		showHostile(newDeskOn(t, s, inspector.WithForceUnlock(everybody)), keys)
	})
}

func showHostile(d *desk, hostile []string) {
	t := d.T
	locks := d.client()
	for _, key := range hostile {
		usertest.Lock(d, d.Context(), locks, key)
	}
	pages := []string{d.get("/", http.StatusOK)}
	a := d.json("/locks.json", http.StatusOK)
	for _, l := range a.Locks {
		values, err := url.ParseQuery(strings.TrimPrefix(l.Href, "key.json?"))
		if err != nil || !slices.Contains(hostile, values.Get("key")) {
			t.Errorf("%q is at %q", l.Key, l.Href)
		}
		if one := d.json("/"+l.Href, http.StatusOK); one.Lock.State != "held" || one.Lock.Key != l.Key {
			t.Errorf("at %q is %+v", l.Href, one.Lock)
		}
		page := d.get("/key?"+values.Encode(), http.StatusOK)
		force, _, _ := strings.Cut(page[strings.Index(page, `href="force-unlock?`)+len(`href="`):], `"`)
		pages = append(pages, page, d.get("/"+html.UnescapeString(force), http.StatusOK))
	}
	if len(a.Locks) != len(hostile) {
		t.Errorf("%d locks of %d", len(a.Locks), len(hostile))
	}
	pages = append(pages, forge(d, hostile)...)
	for _, key := range hostile {
		pages = append(pages, d.get("/?q="+url.QueryEscape(key), http.StatusOK))
	}
	for _, page := range pages {
		for _, bad := range []string{"<script>", "<img src=x", "</main></", "\x1b", "\x00", "\xff", "\r", "\u202e", `href="javascript:`, "ZgotmplZ"} {
			if strings.Contains(page, bad) {
				t.Errorf("a page has %q:\n%.3000s", bad, page)
			}
		}
	}
	if !strings.Contains(pages[0], `<i class="escape">\x00</i><i class="escape">\x1b</i>[31mred`) {
		t.Errorf("invisible characters are not escaped:\n%s", pages[0])
	}
}

// forge writes holds and events of processes with these names, and tickets and tasks with these ids, as anybody with access to Redis may.
// It returns the pages that show them.
func forge(d *desk, hostile []string) (pages []string) {
	rdb, ctx := d.server.NewClient(d), d.Context()
	check := func(err error) {
		if err != nil {
			d.Fatal(err)
		}
	}
	short := func(name string) string { return name[:min(len(name), 500)] }
	for i, name := range hostile {
		key := fmt.Sprintf("lockmw:{by:%d}", i)
		check(rdb.HSet(ctx, key, "id", "x", "owner", strings.Join(hostile, "")+";fixed;label=l", "token", 1, "inbox", "lockmw:inbox:"+short(name)).Err())
		check(rdb.PExpire(ctx, key, time.Hour).Err())
		event, err := json.Marshal(map[string]any{"at_us": i + 1, "event": name, "key": "by:0"})
		check(err)
		check(rdb.XAdd(ctx, &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", name, "events", string(event)}}).Err())
	}
	check(d.queue("by:0", hostile...))
	parkedtest.Park(d, rdb, "default", "lockmw:{by:0}", time.Now(), hostile...)

	d.page = inspector.Handler(d.insp, inspector.WithForceUnlock(everybody)) // reads all of it immediately
	usertest.Eventually(d, "all are shown", time.Minute, func() bool {
		all, page := d.get("/process", http.StatusOK), d.get("/key?key=by:0", http.StatusOK)
		pages = append(pages, all, page)
		return strings.Contains(all, fmt.Sprintf("%d processes", len(hostile)+2)) &&
			strings.Count(page, `data-title="Process"`) > 2*len(hostile) && strings.Contains(page, "<h2>Tasks</h2>")
	})
	for _, name := range hostile {
		name = url.QueryEscape(short(name))
		pages = append(pages, d.get("/process?process="+name, http.StatusOK))
		pages = append(pages, d.get("/release-process?process="+name, http.StatusConflict)) // its silence is not long enough
	}
	return pages
}

// queue makes a call wait for key, and copies its ticket under other ids.
func (d *desk) queue(key string, ids ...string) error {
	d.Helper()
	d.wait(d.client(), key)
	rdb := d.server.NewClient(d)
	tickets, err := rdb.HVals(d.Context(), "lockmw:{"+key+"}:tickets").Result()
	for i, id := range ids {
		err = errors.Join(err, rdb.HSet(d.Context(), "lockmw:{"+key+"}:tickets", id, tickets[0]).Err(),
			rdb.ZAdd(d.Context(), "lockmw:{"+key+"}:queue", redis.Z{Score: float64(1000 + i), Member: id}).Err())
	}
	return err
}

// Each of many streams keeps a page in memory.
func TestAPageHasABoundedNumberOfRows(t *testing.T) {
	d := newDesk(t)
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	ids := make([]string, 300)
	for i := range ids {
		ids[i] = fmt.Sprint("ticket ", i)
	}
	if err := d.queue("user:42", ids...); err != nil {
		t.Fatal(err)
	}
	page := d.get("/key?key=user:42", http.StatusOK)
	if n := strings.Count(page, `data-title="Position"`); n != 200 || !strings.Contains(page, "200 of 301") {
		t.Errorf("%d rows:\n%.3000s", n, page)
	}
	if l := d.json("/key.json?key=user:42", http.StatusOK).Lock; len(l.Waiters) != 301 {
		t.Errorf("JSON has %d waiters", len(l.Waiters))
	}
}

// Anybody may write a number that no process writes.
func TestForgedNumbersHideNothing(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	d := newDeskOn(t, s)
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	d.wait(d.client(), "user:42")
	const late, many = "9000000000000000000", "9223372036854775807"
	for key, change := range map[string][]any{
		"user:42": {"waiters", many},
		"late:1":  {"id", "x", "inbox", "lockmw:inbox:p", "token", 1, "since", late},
		"late:2":  {"id", "x", "inbox", "lockmw:inbox:p", "token", 1, "waiters", "3 " + late + " x"},
	} {
		key = "lockmw:{" + key + "}"
		if err := errors.Join(rdb.HSet(t.Context(), key, change...).Err(), rdb.PExpire(t.Context(), key, time.Hour).Err()); err != nil {
			t.Fatal(err)
		}
	}
	line := `{"at_us":` + late + `,"event":"lost","key":"late:1"}`
	if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", "p", "events", line}}).Err(); err != nil {
		t.Fatal(err)
	}
	parkedtest.Park(t, rdb, "default", "lockmw:{late:1}", time.UnixMicro(9_000_000_000_000_000_000), "task")
	a := d.json("/locks.json", http.StatusOK)
	if len(a.Locks) != 3 || a.Locks[0].Key != "user:42" || a.Locks[0].Waiting < 2 || a.Totals.Waiting < 2 {
		t.Errorf("%+v", a)
	}
	for _, path := range []string{"/key.json?key=late:1", "/process.json?process=p"} {
		if body := d.get(path, http.StatusOK); !json.Valid([]byte(body)) {
			t.Errorf("%s is %q", path, body)
		}
	}
}

func TestRedactedKeysAppearNowhere(t *testing.T) {
	const key = "customer:secret@example.com"
	redactors := map[string]func(string) string{
		"hash": tracing.HashKey([]byte("a secret")), "word": tracing.RedactKey, "panic": func(key string) string { panic(key) },
	}
	for name, redactor := range redactors {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, inspector.WithKeyRedactor(redactor), inspector.WithForceUnlock(everybody))
			locks := d.client()
			usertest.Lock(d, d.Context(), locks, key)
			usertest.Lock(d, d.Context(), locks, "other")
			if err := d.server.Mini.Set("lockmw:{"+key+":wrong}", "x"); err != nil {
				t.Fatal(err)
			}
			a := d.json("/locks.json", http.StatusOK)
			if len(a.Locks) != 3 || a.Totals.Unreadable != 1 {
				t.Fatalf("locks %+v", a.Locks)
			}
			seen := d.get("/", http.StatusOK) + d.get("/locks.json", http.StatusOK)
			for _, query := range []string{"", "?process=" + a.Locks[0].Holders[0].Process} {
				seen += d.get("/process"+query, http.StatusOK) + d.get("/process.json"+query, http.StatusOK)
			}
			for _, l := range a.Locks {
				seen += d.get("/"+l.Href, http.StatusOK) + d.get("/"+strings.Replace(l.Href, ".json", "", 1), http.StatusOK)
			}
			for _, part := range []string{"secret", "customer", "example"} {
				if strings.Contains(seen, part) {
					t.Errorf("something has %q:\n%s", part, seen)
				}
			}
			if a := d.json("/locks.json?q=secret", http.StatusOK); a.Matched != 0 {
				t.Error("the filter reveals whether a key contains these letters")
			}
			d.get("/key?key="+url.QueryEscape(key), http.StatusNotFound)
			d.get("/key?id=AAAA", http.StatusNotFound)
			d.get("/key?id="+strings.Repeat("A", 86), http.StatusNotFound)
		})
	}
}

func TestLinksToRedactedKeysAreValidOnAllReplicasWithTheSecret(t *testing.T) {
	secret := []byte("0123456789abcdef")
	first := newDesk(t, inspector.WithKeyRedactor(tracing.RedactKey), inspector.WithSecret(secret))
	usertest.Lock(t, t.Context(), first.client(), "user:42")
	link := "/" + first.json("/locks.json", http.StatusOK).Locks[0].Href
	second := newDeskOn(t, first.server, inspector.WithKeyRedactor(tracing.RedactKey), inspector.WithSecret(secret))
	if l := second.json(link, http.StatusOK).Lock; l.State != "held" || l.Href != link[1:] {
		t.Errorf("the second replica returns %+v", l)
	}
	third := newDeskOn(t, first.server, inspector.WithKeyRedactor(tracing.RedactKey))
	third.get(link, http.StatusNotFound)
	fourth := newDeskOn(t, first.server, inspector.WithKeyRedactor(tracing.RedactKey))
	fourth.get("/"+third.json("/locks.json", http.StatusOK).Locks[0].Href, http.StatusNotFound) // each has its own secret
}
