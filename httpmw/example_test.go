package httpmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// A double click sends the order twice. The second request arrives while the first one is being handled.
func ExampleWithLock() {
	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)

	inside, proceed := make(chan struct{}), make(chan struct{})
	create := func(w http.ResponseWriter, _ *http.Request) {
		close(inside)
		<-proceed
		w.WriteHeader(http.StatusCreated)
	}
	r := chi.NewRouter()
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
		Post("/users/{userID}/orders", create)

	click := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/users/42/orders", nil))
		return rec
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- click() }()
	<-inside
	second := click()
	close(proceed)

	fmt.Println("first click: ", (<-first).Code)
	fmt.Println("second click:", second.Code, "Retry-After:", second.Header().Get("Retry-After"))
	fmt.Print(second.Body)
	// Output:
	// first click:  201
	// second click: 409 Retry-After: 1
	// {"type":"lock-busy","title":"Busy","status":409,"detail":"Another request for the same thing is being handled.","retry_after_ms":1000}
}

type userKey struct{}

func userID(ctx context.Context) (string, bool) {
	id, found := ctx.Value(userKey{}).(string)
	return id, found
}

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("X-Test-User"); id != "" {
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, id))
		}
		next.ServeHTTP(w, r)
	})
}

// The middlewares in their order: recovery, authentication, timeout, lock.
func ExampleClaim() {
	locks := lockmw.NewLocal()
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, authenticate, middleware.Timeout(30*time.Second))
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.Claim(userID)), lockmw.WithWait(time.Second))).
		Post("/orders", func(_ http.ResponseWriter, r *http.Request) {
			hold, _ := lockmw.FromContext(r.Context())
			fmt.Println("locked:", hold.Key())
		})

	for _, user := range []string{"42", ""} {
		req := httptest.NewRequest(http.MethodPost, "/orders", nil)
		req.Header.Set("X-Test-User", user)
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		fmt.Println(rec.Code)
	}
	// Output:
	// locked: user:42
	// 200
	// 401
}

// One route reads and writes an item. Readers do not exclude each other.
func ExampleWithRWLock() {
	locks := lockmw.NewLocal()
	item := httpmw.WithRWLock(locks, httpmw.By("item", httpmw.PathValue("itemID")))
	mux := http.NewServeMux()
	mux.Handle("/items/{itemID}", item(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	_, reader, err := locks.RLocker().Lock(context.Background(), lockmw.Key("item", "7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock()
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequest(method, "/items/7", nil))
		fmt.Println(method, rec.Code)
	}
	// Output:
	// GET 200
	// PUT 409
}

// A transfer locks both accounts.
func ExampleWithLockAll() {
	locks := lockmw.NewLocal()
	mux := http.NewServeMux()
	mux.Handle("POST /transfers/{from}/{to}", httpmw.WithLockAll(locks, httpmw.All(
		httpmw.By("account", httpmw.PathValue("from")),
		httpmw.By("account", httpmw.PathValue("to")),
	))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, id := range []string{"1", "2"} {
			hold, err := lockmw.Held(r.Context(), lockmw.Key("account", id))
			fmt.Println(hold.Key(), err)
		}
	})))
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/transfers/2/1", nil))
	// Output:
	// account:1 <nil>
	// account:2 <nil>
}

// URL parameters exist only after chi has matched the route. A lock that is mounted too early refuses all requests, and the log
// names the missing parameter. It never falls back to one lock for everybody.
func ExampleURLParam() {
	lock := httpmw.WithLock(lockmw.NewLocal(), httpmw.By("user", httpmw.URLParam("userID")))
	create := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

	right := chi.NewRouter()
	right.With(lock).Post("/users/{userID}/orders", create)

	alsoRight := chi.NewRouter()
	alsoRight.Route("/users/{userID}", func(r chi.Router) {
		r.Use(lock)
		r.Post("/orders", create)
	})

	wrong := chi.NewRouter()
	wrong.Use(lock)
	wrong.Post("/users/{userID}/orders", create)

	for _, r := range []http.Handler{right, alsoRight, wrong} {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/users/42/orders", nil))
		fmt.Println(rec.Code)
	}
	// Output:
	// 201
	// 201
	// 500
}

// A client that repeats a request sends the same idempotency key again. A request without one is refused. A key function that
// returns ErrNoLock lets it run without a lock.
func ExampleHeader() {
	strict := httpmw.By("payment", httpmw.Header("Idempotency-Key"))
	lenient := func(r *http.Request) (string, error) {
		if r.Header.Get("Idempotency-Key") == "" {
			return "", lockmw.ErrNoLock
		}
		return strict(r)
	}
	for _, key := range []httpmw.KeyFunc{strict, lenient} {
		h := httpmw.WithLock(lockmw.NewLocal(), key)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/payments", nil))
		fmt.Println(rec.Code)
	}
	// Output:
	// 400
	// 200
}

// The key comes from the body, which the handler can read again.
func ExampleJSON() {
	locks := lockmw.NewLocal()
	orders := httpmw.WithLock(locks, httpmw.By("customer", httpmw.JSON("/customer/id")))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			hold, _ := lockmw.FromContext(r.Context())
			var order struct{ Item string }
			err := json.NewDecoder(r.Body).Decode(&order)
			fmt.Println("locked:", hold.Key(), order.Item, err)
		}))

	for _, body := range []string{
		`{"customer": {"id": 42}, "item": "lamp"}`,
		`{"customer": {"id": null}, "item": "lamp"}`,
		`{"customer": {"id": 42, "id": 43}}`,
	} {
		rec := httptest.NewRecorder()
		orders.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body)))
		fmt.Println(rec.Code)
	}
	// Output:
	// locked: customer:42 lamp <nil>
	// 200
	// 400
	// 400
}

// Only methods that change the user are locked. Methods are compared exactly: "post" would lock no request, so it panics when the
// middleware is mounted.
func ExampleWithMethods() {
	locks := lockmw.NewLocal()
	r := chi.NewRouter()
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")),
		httpmw.WithMethods(http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete))).
		HandleFunc("/users/{userID}", func(http.ResponseWriter, *http.Request) {})

	_, hold, err := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, httptest.NewRequest(method, "/users/42", nil))
		fmt.Println(method, rec.Code)
	}
	defer func() { fmt.Println(recover()) }()
	httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")), httpmw.WithMethods("post"))
	// Output:
	// GET 200
	// DELETE 409
	// httpmw: WithLock: lockmw: invalid option: WithMethods("post"): methods are in upper case
}

// An error handler answers the errors that it knows and leaves the others to WriteError, which never shows the key or an internal
// error.
func ExampleWithErrorHandler() {
	locks := lockmw.NewLocal()
	locked := httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, lockmw.ErrBusy) {
			http.Error(w, "your other request is being handled", http.StatusLocked)
			return
		}
		httpmw.WriteError(w, r, err)
	})
	mux := http.NewServeMux()
	mux.Handle("/users/{userID}", httpmw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID")), locked)(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/payments", httpmw.WithLock(locks, httpmw.By("payment", httpmw.Header("Idempotency-Key")), locked)(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	_, hold, err := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()
	for _, path := range []string{"/users/42", "/payments"} {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, nil))
		fmt.Println(rec.Code, strings.TrimSpace(rec.Body.String()))
	}
	// Output:
	// 423 your other request is being handled
	// 400 {"type":"lock-invalid-key","title":"Bad request","status":400,"detail":"The part of the request that identifies its subject is missing or not valid."}
}
