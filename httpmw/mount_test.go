package httpmw_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestMistakesPanicWhereTheMiddlewareIsMounted(t *testing.T) {
	local := lockmw.NewLocal()
	lock := func(opts ...httpmw.Option) func() {
		return func() { httpmw.WithLock(local, user42, opts...) }
	}
	for _, tt := range []struct {
		name  string
		mount func()
		says  string
	}{
		{"no Locker", func() { httpmw.WithLock(nil, user42) }, "Locker is nil"},
		{"no RWLocker", func() { httpmw.WithRWLock(nil, user42) }, "Locker is nil"},
		{"no Locker for several", func() { httpmw.WithLockAll(nil, httpmw.All(user42)) }, "Locker is nil"},
		{"a nil Client", func() { httpmw.WithLock((*lockmw.Client)(nil), user42) }, "Locker is nil"},
		{"a nil Local", func() { httpmw.WithRWLock((*lockmw.Local)(nil), user42) }, "Locker is nil"},
		{"a nil LockerFunc", func() { httpmw.WithLockAll(lockmw.LockerFunc(nil), httpmw.All(user42)) }, "Locker is nil"},
		{"a place for all requests", lock(lockmw.WithPlace("1", time.Minute)), "WithPlace"},
		{"a method of two words", lock(httpmw.WithMethods("PO ST")), `"PO ST"`},
		{"an empty method", lock(httpmw.WithMethods("")), `""`},
		{"no key", func() { httpmw.WithLock(local, nil) }, "key function is nil"},
		{"no keys", func() { httpmw.WithLockAll(local, nil) }, "key function is nil"},
		{"no handler", func() { httpmw.WithLock(local, user42)(nil) }, "handler to lock is nil"},
		{"a nil option", lock(nil), "option 1"},
		{"a pointer to an option", lock(lockmw.WithWait(0), new(lockmw.WithWait(0))), "option 2"},
		{"a negative wait", lock(lockmw.WithWait(-time.Second)), "WithWait"},
		{"a weight of a lock", lock(lockmw.WithWeight(2)), "WithWeight needs a semaphore"},
		{"a lease of nothing", lock(lockmw.WithLease(0)), "lease"},
		{"no method", lock(httpmw.WithMethods()), "WithMethods"},
		{"a method in lower case", lock(httpmw.WithMethods("POST", "put")), `"put"`},
		{"no error handler", lock(httpmw.WithErrorHandler(nil)), "WithErrorHandler"},
		{"By without a kind", func() { httpmw.By("", httpmw.Header("A")) }, "kind"},
		{"By without parts", func() { httpmw.By("user") }, "no parts"},
		{"By with a nil part", func() { httpmw.By("user", nil) }, "part 1"},
		{"All of nothing", func() { httpmw.All() }, "All"},
		{"All with a nil", func() { httpmw.All(user42, nil) }, "key function 2"},
		{"a nameless URLParam", func() { httpmw.URLParam("") }, "URLParam"},
		{"a nameless PathValue", func() { httpmw.PathValue("") }, "PathValue"},
		{"a nameless Header", func() { httpmw.Header("") }, "Header"},
		{"a URLParam with braces", func() { httpmw.URLParam("{userID}") }, "URLParam"},
		{"a PathValue with braces", func() { httpmw.PathValue("{userID}") }, "PathValue"},
		{"a URLParam with a pattern", func() { httpmw.URLParam("id:[0-9]+") }, "such as id for {id:[0-9]+}"},
		{"a PathValue with a pattern", func() { httpmw.PathValue("id:[0-9]+") }, "PathValue"},
		{"a URLParam with a path", func() { httpmw.URLParam("users/id") }, "URLParam"},
		{"By with a kind that no key has room for", func() { httpmw.By(strings.Repeat("k", 1023), httpmw.Header("A")) }, "1024 bytes"},
		{"the same, once it is escaped", func() { httpmw.By(strings.Repeat("%", 341), httpmw.Header("A")) }, "1024 bytes"},
		{"the same, with two parts", func() { httpmw.By(strings.Repeat("k", 1021), httpmw.Header("A"), httpmw.Header("B")) }, "1024 bytes"},
		{"a Header that net/http moves", func() { httpmw.Header("host") }, "r.Host"},
		{"a Header with a colon", func() { httpmw.Header("X-Key:") }, "Header"},
		{"a Header with a space", func() { httpmw.Header("X Key") }, "Header"},
		{"a Header beyond ASCII", func() { httpmw.Header("X-Schlüssel") }, "Header"},
		{"Claim of nothing", func() { httpmw.Claim(nil) }, "Claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			usertest.WantPanic(t, "httpmw: ", tt.says, tt.mount)
		})
	}
}

func TestTheLongestKindThatAKeyHasRoomFor(t *testing.T) {
	one := func(*http.Request) (string, error) { return "1", nil }
	for kind, parts := range map[string][]httpmw.Part{strings.Repeat("k", 1022): {one}, strings.Repeat("k", 1020): {one, one}} {
		if rec := post(httpmw.WithLock(lockmw.NewLocal(), httpmw.By(kind, parts...))(ok), "/"); rec.Code != http.StatusCreated {
			t.Errorf("%d parts: status %d: %s", len(parts), rec.Code, rec.Body)
		}
	}
}

func TestLaterChangesOfTheMethodsDoNotCount(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	methods := []string{http.MethodPost}
	option := httpmw.WithMethods(methods...)
	methods[0] = http.MethodGet
	if rec := post(httpmw.WithLock(local, user42, option)(never(t)), "/"); rec.Code != http.StatusConflict {
		t.Errorf("status %d, want 409", rec.Code)
	}
}
