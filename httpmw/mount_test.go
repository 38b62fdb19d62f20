package httpmw_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/httpmw"
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
		{"no Locker for several", func() { httpmw.WithLocks(nil, httpmw.All(user42)) }, "Locker is nil"},
		{"a nil Client", func() { httpmw.WithLock((*lockmw.Client)(nil), user42) }, "Locker is nil"},
		{"a nil Local", func() { httpmw.WithRWLock((*lockmw.Local)(nil), user42) }, "Locker is nil"},
		{"a nil LockerFunc", func() { httpmw.WithLocks(lockmw.LockerFunc(nil), httpmw.All(user42)) }, "Locker is nil"},
		{"a ticket for all requests", lock(lockmw.WithTicket("1", time.Minute)), "WithTicket"},
		{"a method of two words", lock(httpmw.WithMethods("PO ST")), `"PO ST"`},
		{"an empty method", lock(httpmw.WithMethods("")), `""`},
		{"no key", func() { httpmw.WithLock(local, nil) }, "key function is nil"},
		{"no keys", func() { httpmw.WithLocks(local, nil) }, "key function is nil"},
		{"no handler", func() { httpmw.WithLock(local, user42)(nil) }, "handler to lock is nil"},
		{"a nil option", lock(nil), "option 1"},
		{"a pointer to an option", lock(lockmw.WithWait(0), new(lockmw.WithWait(0))), "option 2"},
		{"a negative wait", lock(lockmw.WithWait(-time.Second)), "WithWait"},
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
		{"a Header with a colon", func() { httpmw.Header("X-Key:") }, "Header"},
		{"a Header with a space", func() { httpmw.Header("X Key") }, "Header"},
		{"a Header beyond ASCII", func() { httpmw.Header("X-Schlüssel") }, "Header"},
		{"Claim of nothing", func() { httpmw.Claim(nil) }, "Claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				got := fmt.Sprint(recover())
				if !strings.HasPrefix(got, "httpmw: ") || !strings.Contains(got, tt.says) {
					t.Errorf("panic %q, want one of httpmw that says %q", got, tt.says)
				}
			}()
			tt.mount()
		})
	}
}

func TestLaterChangesOfTheMethodsDoNotCount(t *testing.T) {
	local := lockmw.NewLocal()
	occupy(t, local, "user:42")
	methods := []string{http.MethodPost}
	option := httpmw.WithMethods(methods...)
	methods[0] = http.MethodGet
	if rec := post(httpmw.WithLock(local, user42, option)(never(t)), "/"); rec.Code != http.StatusConflict {
		t.Errorf("status %d, want 409", rec.Code)
	}
}
