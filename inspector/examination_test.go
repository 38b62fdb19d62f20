package inspector_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

func TestFindingsAboutTheServerAreShown(t *testing.T) {
	d := newDeskOn(t, redistest.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
	d.await("/redis", "<h2>Checks</h2>")
	page := d.get("/redis", http.StatusOK)
	if !strings.Contains(page, `<span class="badge failure">failure</span>`) || !strings.Contains(page, "maxmemory-policy allkeys-lru: a full server evicts locks") ||
		!strings.Contains(page, "CONFIG SET maxmemory-policy noeviction") {
		t.Errorf("the page is\n%s", page)
	}
	var answer struct {
		Findings []struct{ Check, Verdict, Saw, Remedy string }
	}
	if err := json.Unmarshal([]byte(d.get("/redis.json", http.StatusOK)), &answer); err != nil {
		t.Fatal(err)
	}
	verdicts := make(map[string]string)
	for _, f := range answer.Findings {
		verdicts[f.Check] = f.Verdict
	}
	if verdicts["eviction"] != "failure" || verdicts["connection"] != "ok" || verdicts["rights"] != "" {
		t.Errorf("%+v", answer)
	}
	if keys := d.server.NewClient(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("viewing the page has written the keys %v", keys)
	}
}

func TestTheHistoryOfALockIsShown(t *testing.T) {
	s := redistest.Mini(t)
	events := lockevents.New(usertest.Inspector(t, s.NewClient(t)))
	locks := usertest.Client(t, s, lockmw.WithObserver(events.Observer()))
	_, hold := usertest.Lock(t, t.Context(), locks, "user:42", lockmw.WithLabel("<order-1>"))
	if _, _, err := locks.TryLock(t.Context(), "user:42"); err == nil {
		t.Fatal("two calls hold the lock")
	}
	usertest.Unlock(t, hold)
	usertest.Occupy(t, locks, "user:43")
	if _, _, err := locks.TryLock(t.Context(), "user:43"); err == nil {
		t.Fatal("two calls hold the lock")
	}
	if err := events.Close(); err != nil {
		t.Fatal(err)
	}
	for redacted, opts := range map[bool][]inspector.Option{false: nil, true: {inspector.WithKeyRedactor(func(string) string { return "a key" })}} {
		d := newDeskOn(t, s, opts...)
		path := "/key.json?key=user:42"
		if redacted {
			_, path, _ = strings.Cut(d.get("/locks.json", http.StatusOK), `"href": "`)
			path, _, _ = strings.Cut(path, `"`)
			path = "/" + path // of user:43, which is held
		}
		d.await(path, `"event": "acquired"`)
		var answer struct {
			History []struct{ Event, Label, Error string }
		}
		if err := json.Unmarshal([]byte(d.get(path, http.StatusOK)), &answer); err != nil {
			t.Fatal(err)
		}
		h := answer.History
		if redacted {
			if len(h) != 2 || h[0].Event != "failed" || h[0].Error != "" { // errors may quote keys
				t.Errorf("%+v", h)
			}
			continue
		}
		if len(h) != 3 || h[0].Event != "released" || h[1].Event != "failed" || h[1].Error == "" || h[2].Event != "acquired" || h[2].Label != "<order-1>" {
			t.Errorf("%+v", h)
		}
		page := d.get("/key?key=user:42", http.StatusOK)
		if !strings.Contains(page, "<h2>History</h2>") || !strings.Contains(page, "failed: not_acquired") || !strings.Contains(page, "&lt;order-1&gt;") {
			t.Errorf("the page is\n%s", page)
		}
		if page := d.get("/key?key=user:44", http.StatusOK); strings.Contains(page, "History") {
			t.Error("a key without a history has one")
		}
	}
}
