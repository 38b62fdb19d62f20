package httpmw_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestWithRWLockReadsByMethod(t *testing.T) {
	for name, tt := range map[string]struct {
		other                          func(*lockmw.Local) lockmw.Locker
		get, head, options, post, trac int
	}{
		"while another reads":  {func(l *lockmw.Local) lockmw.Locker { return l.RLocker() }, 201, 201, 201, 409, 409},
		"while another writes": {func(l *lockmw.Local) lockmw.Locker { return l }, 409, 409, 409, 409, 409},
	} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			usertest.Occupy(t, tt.other(local), "user:42")
			h := httpmw.WithRWLock(local, user42)(ok)
			for method, want := range map[string]int{
				"GET": tt.get, "HEAD": tt.head, "OPTIONS": tt.options, "POST": tt.post, "TRACE": tt.trac,
			} {
				if rec := serve(h, httptest.NewRequest(method, "/", nil)); rec.Code != want {
					t.Errorf("%s: status %d, want %d", method, rec.Code, want)
				}
			}
		})
	}
}

func header(name string) httpmw.KeyFunc { return httpmw.By("account", httpmw.Header(name)) }

func transfer(from, to string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/transfers", nil)
	r.Header.Set("From", from)
	r.Header.Set("To", to)
	return r
}

func TestWithLockAllTakesAllOrNone(t *testing.T) {
	local := lockmw.NewLocal()
	h := httpmw.WithLockAll(local, httpmw.All(header("From"), header("To")))
	both := h(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, key := range []string{"account:1", "account:2"} {
			if _, err := lockmw.Held(r.Context(), key); err != nil {
				t.Error(err)
			}
		}
		w.WriteHeader(http.StatusCreated)
	}))
	if rec := serve(both, transfer("2", "1")); rec.Code != http.StatusCreated {
		t.Errorf("status %d", rec.Code)
	}
	usertest.Occupy(t, local, "account:2")
	if rec := serve(h(never(t)), transfer("2", "1")); rec.Code != http.StatusConflict {
		t.Errorf("status %d, want 409", rec.Code)
	}
	if !usertest.IsFree(local, "account:1") {
		t.Error("account:1 is still locked by the request that was refused")
	}
}

func TestWithLockAllOfOppositeOrdersDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Millisecond)
			w.WriteHeader(http.StatusCreated)
		})
		h := httpmw.WithLockAll(lockmw.NewLocal(), httpmw.All(header("From"), header("To")), lockmw.WithWait(lockmw.Forever))(slow)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				r := transfer("1", "2")
				if i%2 == 1 {
					r = transfer("2", "1")
				}
				if rec := serve(h, r); rec.Code != http.StatusCreated {
					t.Errorf("status %d", rec.Code)
				}
			})
		}
		all.Wait()
	})
}

func TestAllSkipsKeyFunctionsThatNeedNoLock(t *testing.T) {
	none := func(*http.Request) (string, error) { return "", lockmw.ErrNoLock }
	var keys []string
	l := recording(lockmw.NewLocal(), &keys)
	post(httpmw.WithLockAll(l, httpmw.All(none, user42))(ok), "/")
	if rec := post(httpmw.WithLockAll(l, httpmw.All(none, none))(ok), "/"); rec.Code != http.StatusCreated {
		t.Errorf("without any key: status %d", rec.Code)
	}
	if want := []string{"user:42"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

func TestWithLockAllNeverRunsUnlockedByMistake(t *testing.T) {
	usertest.DefaultLog(t)
	for name, tt := range map[string]struct {
		keys   httpmw.KeysFunc
		status int
	}{
		"no keys":      {func(*http.Request) ([]string, error) { return nil, nil }, 400},
		"an empty key": {func(*http.Request) ([]string, error) { return []string{"a", ""}, nil }, 400},
		"an error":     {func(*http.Request) ([]string, error) { return []string{"a"}, errors.New("no") }, 500},
		"a part":       {httpmw.All(user42, header("From")), 400},
	} {
		if rec := post(httpmw.WithLockAll(lockmw.NewLocal(), tt.keys)(never(t)), "/"); rec.Code != tt.status {
			t.Errorf("%s: status %d, want %d", name, rec.Code, tt.status)
		}
	}
}
