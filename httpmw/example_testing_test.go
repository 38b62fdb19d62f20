package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// newShop is what the tests below are about: it gets its locks from outside, in production those of
// lockmw.New, in tests others. No test needs a Redis.
func newShop(locks lockmw.Locker, create http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /users/{userID}/orders", httpmw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID")))(create))
	return mux
}

func order(shop http.Handler) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	shop.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/users/42/orders", nil))
	return rec
}

// To see what a client gets while the lock is busy, take it with the same key.
func ExampleWithLock_testBusy() {
	locks := lockmw.NewLocal()
	shop := newShop(locks, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })

	_, hold, err := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("busy:", order(shop).Code)
	if err := hold.Unlock(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("free:", order(shop).Code)
	// Output:
	// busy: 409
	// free: 201
}

// To see how a handler takes the loss of its lock, expire the lock while it runs.
func ExampleWithLock_testLost() {
	locks := lockmw.NewLocal()
	shop := newShop(locks, func(_ http.ResponseWriter, r *http.Request) {
		locks.Expire(lockmw.Key("user", "42")) // in a real handler: where it calls something of the test's
		<-r.Context().Done()
		fmt.Println("the handler stops:", context.Cause(r.Context()))
	})

	fmt.Println("the client gets:", order(shop).Code)
	// Output:
	// the handler stops: lockmw: lock was lost: its lease ran out
	// the client gets: 500
}

// To see what a client gets while Redis is away, pass a Locker that says so. The same works for every
// other error of lockmw. An ErrBusy is a 409, or a 503 if the Error says how long it Waited.
func ExampleWithLock_testUnavailable() {
	away := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrUnavailable}
	})
	shop := newShop(away, func(http.ResponseWriter, *http.Request) { fmt.Println("never called") })

	rec := order(shop)
	fmt.Println(rec.Code, "Retry-After:", rec.Header().Get("Retry-After"))
	// Output:
	// 503 Retry-After: 1
}
