package mounttest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A repetition is one request of a row of requests with idempotency keys.
type repetition struct {
	user, key string
	outcome   string // status and problem
	orders    int    // handled after it
}

// once mounts Idempotent outside of the lock. fails are the results of the first orders.
func once(f *Framework, t *testing.T) {
	for name, test := range map[string]struct {
		policy   idempotency.Policy
		fails    []error
		requests []repetition
	}{
		"repeated": {idempotency.Refuse, nil, []repetition{
			{"42", "a", "201", 1},
			{"42", "a", "201 replayed", 1},
			{"42", "b", "201", 2},
			{"43", "a", "201", 3},
			{"42", "", "201", 4},
			{"", "a", "401 lock-no-claim", 4},
			{"42", strings.Repeat("k", 2000), "400 idempotency-key-invalid", 4},
		}},
		"refused by the handler": {idempotency.Refuse, []error{ErrNoStock}, []repetition{
			{"42", "a", "422", 1},
			{"42", "a", "201", 2},
			{"42", "a", "201 replayed", 2},
		}},
		"panicked, refused": {idempotency.Refuse, []error{errPanic}, []repetition{
			{"42", "a", "500", 1},
			{"42", "a", "409 idempotency-unknown-outcome", 1},
		}},
		"panicked, run again": {idempotency.RunAgain, []error{errPanic}, []repetition{
			{"42", "a", "500", 1},
			{"42", "a", "201", 2},
		}},
		"the lock is lost": {idempotency.Refuse, []error{lockmw.ErrLost}, []repetition{
			{"42", "a", "500 lock-lost", 1},
			{"42", "a", "409 idempotency-unknown-outcome", 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			runner := &Once{idempotency.New(local), httpmw.Claim(Caller), test.policy}
			orders := 0
			h := f.Serve(&Shop{Once: runner, Mount: f.byUser(local), Order: func(ctx context.Context) error {
				if orders++; orders > len(test.fails) {
					return nil
				}
				switch err := test.fails[orders-1]; {
				case errors.Is(err, errPanic):
					panic(err)
				case errors.Is(err, lockmw.ErrLost):
					local.Expire("user:1")
					return lost(ctx)
				default:
					return err
				}
			}})
			for i, r := range test.requests {
				if got := repeat(t, h, r.user, r.key); got != r.outcome || orders != r.orders {
					t.Errorf("request %d: %s after %d orders, want %s after %d", i+1, got, orders, r.outcome, r.orders)
				}
			}
		})
	}
	t.Run("refused by the lock", func(t *testing.T) {
		local := lockmw.NewLocal()
		runner := &Once{idempotency.New(local), httpmw.Claim(Caller), idempotency.Refuse}
		h := f.Serve(&Shop{Once: runner, Mount: f.byUser(local)})
		release := usertest.Occupy(t, local, "user:1")
		if got := repeat(t, h, "42", "a"); got != "409 lock-busy" {
			t.Errorf("while it is busy: %s", got)
		}
		release()
		if got := repeat(t, h, "42", "a"); got != "201" {
			t.Errorf("afterwards: %s", got)
		}
	})
}

var errPanic = errors.New("out of paper")

// repeat orders with an Idempotency-Key and returns status and problem.
func repeat(t *testing.T, h http.Handler, user, key string) string {
	r := httptest.NewRequest(http.MethodPost, "/users/1/orders", nil)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	rec := orderAs(h, r, user)
	return outcomeOf(t, rec)
}
