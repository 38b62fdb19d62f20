package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// newShop is the code under test in the examples below. It receives its locks from the caller: lockmw.New in production, a Local
// or a LockerFunc in tests. No test needs Redis.
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

// To test the response for a busy lock, lock the same key in the test.
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

// To test how a handler reacts to the loss of its lock, expire the lock while it runs.
func ExampleWithLock_testLost() {
	locks := lockmw.NewLocal()
	shop := newShop(locks, func(_ http.ResponseWriter, r *http.Request) {
		locks.Expire(lockmw.Key("user", "42")) // in a real handler, a test double that it calls does this
		<-r.Context().Done()
		fmt.Println("the handler stops:", context.Cause(r.Context()))
	})

	fmt.Println("the client gets:", order(shop).Code)
	// Output:
	// the handler stops: lockmw: lock was lost: its lease ran out
	// the client gets: 500
}

// To test the response for an unreachable Redis, pass a Locker that returns ErrUnavailable. This works for every other error of
// lockmw. An ErrBusy becomes a 409, or a 503 if the Error has a Waited time.
func ExampleWithLock_testUnavailable() {
	down := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrUnavailable}
	})
	shop := newShop(down, func(http.ResponseWriter, *http.Request) { fmt.Println("never called") })

	rec := order(shop)
	fmt.Println(rec.Code, "Retry-After:", rec.Header().Get("Retry-After"))
	// Output:
	// 503 Retry-After: 1
}
