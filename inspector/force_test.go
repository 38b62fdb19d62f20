package inspector_test

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/tracing"
)

func everybody(*http.Request) bool { return true }

// An operator is a browser with an open confirmation page.
type operator struct {
	*desk
	action string // target of the form
	cookie *http.Cookie
	form   url.Values
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// ask opens the page of a key, and then the confirmation page for its first holder.
func (d *desk) ask(keyPage string) *operator {
	d.Helper()
	page := d.get(keyPage, http.StatusOK)
	_, link, found := strings.Cut(page, `href="force-unlock?`)
	if !found {
		d.Fatalf("the page does not offer to release the lock:\n%s", page)
	}
	link, _, _ = strings.Cut(link, `"`)
	return d.askAt("/force-unlock", html.UnescapeString(link))
}

// askAt opens a confirmation page.
func (d *desk) askAt(action, query string) *operator {
	d.Helper()
	w := d.do(http.MethodGet, action+"?"+query)
	if w.Code != http.StatusOK || len(w.Result().Cookies()) != 1 {
		d.Fatalf("asked, %d with cookies %v:\n%s", w.Code, w.Result().Cookies(), w.Body)
	}
	o := &operator{d, action, w.Result().Cookies()[0], make(url.Values)}
	for _, field := range hidden.FindAllStringSubmatch(w.Body.String(), -1) {
		o.form.Set(field[1], html.UnescapeString(field[2]))
	}
	return o
}

// confirm sends the form.
func (o *operator) confirm(header ...string) *httptest.ResponseRecorder {
	o.Helper()
	r := httptest.NewRequest(http.MethodPost, o.action, strings.NewReader(o.form.Encode()))
	if o.cookie != nil {
		r.AddCookie(o.cookie)
	}
	return o.serve(r, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
}

// edit changes the hold of the form.
func (o *operator) edit(old, changed string) []string {
	o.Helper()
	hold := strings.Replace(o.form.Get("target"), old, changed, 1)
	if hold == o.form.Get("target") {
		o.Errorf("%s is not about %s", hold, old)
	}
	o.form.Set("target", hold)
	return nil
}

func TestForceUnlockReleasesTheHoldThatWasShown(t *testing.T) {
	for name, opts := range map[string][]inspector.Option{"shown": nil, "redacted": {inspector.WithKeyRedactor(tracing.RedactKey)}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, append(opts, inspector.WithForceUnlock(everybody))...)
			_, hold := usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithLabel("req-1"))
			o := d.ask("/" + strings.Replace(d.json("/locks.json", http.StatusOK).Locks[0].Href, ".json", "", 1))
			w := o.confirm("Sec-Fetch-Site", "same-origin")
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "The lock was released by force") || !strings.Contains(w.Body.String(), "req-1") {
				t.Fatalf("%d\n%s", w.Code, w.Body)
			}
			if !usertest.IsFree(d.client(), "user:42") {
				t.Error("the lock is still held")
			}
			if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("Unlock of the holder: %v", err)
			}
			if w := o.confirm(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "This hold has ended") {
				t.Errorf("second confirmation: %d\n%s", w.Code, w.Body)
			}
		})
	}
}

func TestForceUnlockReleasesOnlyTheReaderThatWasShown(t *testing.T) {
	d := newDesk(t, inspector.WithForceUnlock(everybody))
	_, first := usertest.Lock(d, d.Context(), rwlock.New(d.client()).RLocker(), "doc:1", lockmw.WithLabel("reader-1"))
	_, second := usertest.Lock(d, d.Context(), rwlock.New(d.client()).RLocker(), "doc:1", lockmw.WithLabel("reader-2"))
	o := d.ask("/key?key=doc:1")
	if o.edit("owner=", "owner=0"); o.confirm().Code != http.StatusForbidden {
		t.Error("another owner is accepted")
	}
	page := d.get("/key?key=doc:1", http.StatusOK)
	links := strings.Split(page, `href="force-unlock?`)
	if len(links) != 3 || !strings.Contains(links[0], "reader-1") || !strings.Contains(links[1], "reader-2") {
		t.Fatalf("the page is\n%s", page)
	}
	link, _, _ := strings.Cut(links[2], `"`)
	if asked := d.get("/force-unlock?"+html.UnescapeString(link), http.StatusOK); !strings.Contains(asked, "reader-2") || strings.Contains(asked, "reader-1") {
		t.Errorf("asked about the second reader, the page is\n%s", asked)
	}
	if w := d.ask("/key?key=doc:1").confirm(); w.Code != http.StatusOK {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if err := first.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Unlock of the reader that was shown: %v", err)
	}
	usertest.Unlock(t, second)
}

func TestTheSecondOfTwoOperatorsReleasesNothing(t *testing.T) {
	d := newDesk(t, inspector.WithForceUnlock(everybody))
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	first, second := d.ask("/key?key=user:42"), d.ask("/key?key=user:42")
	if w := first.confirm(); w.Code != http.StatusOK {
		t.Errorf("the first: %d\n%s", w.Code, w.Body)
	}
	next := d.client()
	usertest.Lock(d, d.Context(), next, "user:42", lockmw.WithLabel("req-next"))
	if w := second.confirm(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "req-next") {
		t.Errorf("the second: %d\n%s", w.Code, w.Body)
	}
	if usertest.IsFree(d.client(), "user:42") {
		t.Error("the next holder has lost the lock")
	}
	d.get("/force-unlock?key=user:42&owner=x&token=1", http.StatusConflict)
}

func TestForceUnlockNeedsAConfirmation(t *testing.T) {
	d := newDesk(t, inspector.WithForceUnlock(everybody))
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	usertest.Lock(d, d.Context(), d.client(), "user:7")
	other := d.ask("/key?key=user:7")
	for name, change := range map[string]func(*operator) []string{
		"from another site":    func(*operator) []string { return []string{"Sec-Fetch-Site", "cross-site"} },
		"from a sister site":   func(*operator) []string { return []string{"Sec-Fetch-Site", "same-site"} },
		"of another origin":    func(*operator) []string { return []string{"Origin", "https://evil.example.com"} },
		"without a cookie":     func(o *operator) []string { o.cookie = nil; return nil },
		"with another cookie":  func(o *operator) []string { o.cookie.Value = "x"; return nil },
		"with an empty cookie": func(o *operator) []string { o.cookie.Value = ""; return nil },
		"without a signature":  func(o *operator) []string { o.form.Del("confirmation"); return nil },
		"of another hold":      func(o *operator) []string { o.form.Set("confirmation", other.form.Get("confirmation")); return nil },
		"for longer":           func(o *operator) []string { o.form.Set("until", "99999999999"); return nil },
		"of another key":       func(o *operator) []string { return o.edit("user%3A42", "user%3A7") },
		"of another token":     func(o *operator) []string { return o.edit("token=", "token=7") },
		"too long a form":      func(o *operator) []string { o.form.Set("x", strings.Repeat("x", 1<<14)); return nil },
	} {
		o := d.ask("/key?key=user:42")
		w := o.confirm(change(o)...)
		if w.Code != http.StatusForbidden && w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d\n%s", name, w.Code, w.Body)
		}
	}
	if d.json("/key.json?key=user:42", http.StatusOK).Lock.State != "held" || usertest.IsFree(d.client(), "user:42") {
		t.Error("the lock was released")
	}
	w := d.do(http.MethodGet, "/force-unlock?key=user:42")
	if c := w.Result().Cookies(); len(c) > 0 {
		t.Errorf("a page without a confirmation form sets cookies: %v", c)
	}
}

func TestOnlyAuthorizedOperatorsMayForceUnlock(t *testing.T) {
	d := newDesk(t, inspector.WithForceUnlock(func(r *http.Request) bool { return r.Header.Get("X-User") == "oncall" }))
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	if page := d.get("/key?key=user:42", http.StatusOK); strings.Contains(page, "force-unlock") {
		t.Error("the page offers a release to an unauthorized operator")
	}
	if w := d.do(http.MethodGet, "/key?key=user:42", "X-User", "oncall"); !strings.Contains(w.Body.String(), "force-unlock") {
		t.Error("the page does not offer a release to an authorized operator")
	}
	d.get("/force-unlock?key=user:42", http.StatusForbidden)
	if w := d.do(http.MethodPost, "/force-unlock?key=user:42"); w.Code != http.StatusForbidden {
		t.Errorf("a POST: %d", w.Code)
	}
	nobody := newDeskOn(t, d.server)
	nobody.get("/force-unlock?key=user:42", http.StatusForbidden)
}

func TestConfirmationsAreValidOnAllReplicasWithTheSecret(t *testing.T) {
	secret := inspector.WithSecret([]byte("0123456789abcdef"))
	first := newDesk(t, inspector.WithForceUnlock(everybody), secret)
	usertest.Lock(t, t.Context(), first.client(), "user:42")
	o := first.ask("/key?key=user:42")
	stranger := newDeskOn(t, first.server, inspector.WithForceUnlock(everybody))
	o.desk = stranger
	if w := o.confirm(); w.Code != http.StatusForbidden {
		t.Errorf("without the secret: %d", w.Code)
	}
	o.desk = newDeskOn(t, first.server, inspector.WithForceUnlock(everybody), secret)
	if w := o.confirm(); w.Code != http.StatusOK {
		t.Errorf("with it: %d\n%s", w.Code, w.Body)
	}
}

func TestAConfirmationExpires(t *testing.T) {
	inBubble(t, func(d *desk) {
		usertest.Lock(d, d.Context(), d.client(), "user:42")
		o := d.ask("/key?key=user:42")
		time.Sleep(10*time.Minute + time.Second)
		if w := o.confirm(); w.Code != http.StatusForbidden {
			d.Errorf("after ten minutes: %d\n%s", w.Code, w.Body)
		}
	}, inspector.WithForceUnlock(everybody))
}

func TestTheHistoryNamesTheOperatorOfAForcedRelease(t *testing.T) {
	for want, opts := range map[string][]inspector.Option{
		"page": nil, "alice <x>": {inspector.WithOperator(func(*http.Request) string { return "alice <x>" })},
	} {
		d := newDesk(t, append(opts, inspector.WithForceUnlock(everybody))...)
		usertest.Lock(d, d.Context(), d.client(), "user:42", lockmw.WithLabel("req-1"))
		process := d.json("/locks.json", http.StatusOK).Locks[0].Holders[0].Process
		if w := d.ask("/key?key=user:42").confirm(); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "not in the history") {
			t.Fatalf("%d\n%s", w.Code, w.Body)
		}
		d = newDeskOn(t, d.server) // has not read the history yet
		if page := d.get("/key?key=user:42", http.StatusOK); !strings.Contains(page, "forced by <bdi>"+html.EscapeString(want)+"</bdi>") {
			t.Errorf("the page lacks the operator:\n%s", page)
		}
		var a struct {
			History []struct {
				Event, By, Label string
				Holder           string `json:"holder_process"`
			}
		}
		if err := json.Unmarshal([]byte(d.get("/key.json?key=user:42", http.StatusOK)), &a); err != nil || len(a.History) != 1 {
			t.Fatalf("%v, %+v", err, a)
		}
		if h := a.History[0]; h.Event != "forced" || h.By != want || h.Label != "req-1" || h.Holder != process {
			t.Errorf("%+v, want by %s, of %s", h, want, process)
		}
	}
}

// A page that cannot read the lock knows neither whether the hold has ended nor who holds the lock.
func TestAForcedReleaseClaimsNothingThatItCouldNotRead(t *testing.T) {
	claims := []string{"This hold has ended", "Nobody holds"}
	for name, test := range map[string]struct {
		lose   func(d *desk, o *operator) *httptest.ResponseRecorder
		status int
		says   string
		reason string
		never  []string
	}{
		"before the question": {func(d *desk, o *operator) *httptest.ResponseRecorder {
			d.server.Mini.Close()
			return d.do(http.MethodGet, o.action+"?"+o.form.Get("target"))
		}, http.StatusServiceUnavailable, "Nothing was released", "Redis could not be read", claims},
		"before the confirmation": {func(d *desk, o *operator) *httptest.ResponseRecorder {
			d.server.Mini.Close()
			return o.confirm()
		}, http.StatusServiceUnavailable, "Nothing was released", "Redis could not be read", claims},
		"another program's data": {func(d *desk, o *operator) *httptest.ResponseRecorder {
			for _, key := range d.server.Mini.Keys() {
				if strings.Contains(key, "user:42") {
					d.server.Mini.Del(key)
					_ = d.server.Mini.Set(key, "data")
				}
			}
			return o.confirm()
		}, http.StatusConflict, "Nothing was released", "another program", claims},
		"after the release": {func(d *desk, o *operator) *httptest.ResponseRecorder {
			return o.confirm("X-Close", "true")
		}, http.StatusOK, "The lock was released by force", "Redis could not be read", append(claims, "Nothing was released")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d *desk
			d = newDesk(t, inspector.WithForceUnlock(everybody), inspector.WithOperator(func(r *http.Request) string {
				if r.Header.Get("X-Close") != "" { // the operator is named once the lock is released
					d.server.Mini.Close()
				}
				return "alice"
			}))
			usertest.Lock(d, d.Context(), usertest.Abandoned(d, d.server.NewClient(d)), "user:42")
			w := test.lose(d, d.ask("/key?key=user:42"))
			page := w.Body.String()
			if w.Code != test.status || !strings.Contains(page, test.says) || !strings.Contains(page, test.reason) {
				t.Errorf("%d\n%s", w.Code, page)
			}
			for _, claim := range test.never {
				if strings.Contains(page, claim) {
					t.Errorf("the page says %q:\n%s", claim, page)
				}
			}
		})
	}
}

func TestAReleaseThatCannotBeRecordedIsDone(t *testing.T) {
	d := newDesk(t, inspector.WithForceUnlock(everybody))
	if err := d.server.NewClient(t).Set(t.Context(), "lockmw:events", "not a stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	usertest.Lock(d, d.Context(), d.client(), "user:42")
	if w := d.ask("/key?key=user:42").confirm(); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "The release is not in the history") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if !usertest.IsFree(d.client(), "user:42") {
		t.Error("the lock is still held")
	}
}
