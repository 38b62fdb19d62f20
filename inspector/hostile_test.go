package inspector_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockmw/go/inspector"
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
	rdb := d.server.NewClient(t)
	for i, name := range hostile {
		name = name[:min(len(name), 500)]
		err := rdb.HSet(d.Context(), fmt.Sprintf("lockmw:{by:%d}", i), "id", "x", "owner", "o;fixed;label=l", "token", 1, "inbox", "lockmw:inbox:"+name).Err()
		if err == nil {
			err = rdb.PExpire(d.Context(), fmt.Sprintf("lockmw:{by:%d}", i), time.Hour).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		page := d.get("/process?process="+url.QueryEscape(name), http.StatusOK)
		pages = append(pages, page, d.get("/process", http.StatusOK), d.do(http.MethodGet, "/release-process?process="+url.QueryEscape(name)).Body.String())
	}
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
