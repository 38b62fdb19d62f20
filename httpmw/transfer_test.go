package httpmw_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
)

func accounts(order ...string) httpmw.KeysFunc {
	var keys []httpmw.KeyFunc
	for _, name := range order {
		keys = append(keys, httpmw.By("account", httpmw.PathValue(name)))
	}
	return httpmw.All(keys...)
}

func TestATransferLocksAllAccountsOrNone(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		locks, other := usertest.ClientOf(t, s.NewClient(t, wire.Use)), usertest.Client(t, s)
		mux := http.NewServeMux()
		mux.Handle("/transfers/{from}/{to}/{via}", httpmw.WithLockAll(locks, accounts("from", "to", "via"))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, key := range []string{"account:a", "account:b", "account:c"} {
					if hold, err := lockmw.Held(r.Context(), key); err != nil || hold.Token() == 0 || usertest.IsFree(other, key) {
						t.Errorf("%s is not locked: %v", key, err)
					}
				}
				w.WriteHeader(http.StatusCreated)
			})))
		site := webtest.NewSite(t, mux)
		wire.Record()
		if a := site.Request(t, http.MethodPost, "/transfers/c/a/b"); a.Status != http.StatusCreated {
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
		var order strings.Builder // in which the locks were first spoken of
		for _, command := range wire.Sent() {
			for _, key := range []string{"a", "b", "c"} {
				if command.IsScript() && command.Concerns("{account:"+key+"}") && !strings.Contains(order.String(), key) {
					order.WriteString(key)
				}
			}
		}
		if got := order.String(); got != "abc" {
			t.Errorf("locked in the order %q, want %q", got, "abc")
		}
		for _, taken := range []string{"a", "b", "c"} {
			release := usertest.Occupy(t, other, "account:"+taken)
			wantProblem(t, site.Request(t, http.MethodPost, "/transfers/c/a/b"), 409, "lock-busy", true)
			for _, key := range []string{"a", "b", "c"} {
				if free := usertest.IsFree(other, "account:"+key); free != (key != taken) {
					t.Errorf("with %s taken, %s is free: %t", taken, key, free)
				}
			}
			release()
		}
	})
}

func TestTransfersInOppositeDirectionsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		mux := http.NewServeMux()
		var inside, done atomic.Int32
		exclusive := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d transfers at once", n)
			}
			done.Add(1)
			inside.Add(-1)
			w.WriteHeader(http.StatusCreated)
		})
		// Two processes, which name the accounts in opposite order.
		mux.Handle("/there/{from}/{to}", httpmw.WithLockAll(usertest.Client(t, s), accounts("from", "to"), lockmw.WithWait(patience))(exclusive))
		mux.Handle("/back/{from}/{to}", httpmw.WithLockAll(usertest.Client(t, s), accounts("to", "from"), lockmw.WithWait(patience))(exclusive))
		site := webtest.NewSite(t, mux)
		var all sync.WaitGroup
		const each = 40
		for range each {
			for _, path := range []string{"/there/1/2", "/back/1/2", "/there/2/1"} {
				all.Go(func() {
					if a := site.Request(t, http.MethodPost, path); a.Status != http.StatusCreated {
						t.Errorf("%s: status %d: %s", path, a.Status, a.Body)
					}
				})
			}
		}
		all.Wait()
		if n := done.Load(); n != 3*each {
			t.Errorf("%d transfers, want %d", n, 3*each)
		}
	})
}
