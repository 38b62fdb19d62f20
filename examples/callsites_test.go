package examples_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

type (
	Order   struct{ User, Item string }
	Receipt struct{ ID string }
)

// Code that every service has.
func create(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
func userID(ctx context.Context) (string, bool) {
	id, ok := ctx.Value(userKey{}).(string)
	return id, ok
}
func fulfil(context.Context, *asynq.Task) error         { return nil }
func place(_ context.Context, o Order) (Receipt, error) { return Receipt{"R-" + o.Item}, nil }
func handle(context.Context, Order) error               { return nil }

type userKey struct{}

// Code for locks: the key of the lock that a call needs.
func byItem(_ context.Context, o Order) (string, error) { return lockmw.Key("item", o.Item), nil }

func post(h http.Handler, path string) int {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, nil))
	return rec.Code
}

// One order per user on a route. The middleware belongs at the route, because chi knows a route's
// parameters only there.
func Example_oneOrderPerUser() {
	locks := lockmw.NewLocal()
	r := chi.NewRouter()
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
		Post("/users/{userID}/orders", create)

	fmt.Println(post(r, "/users/42/orders"))

	_, hold, _ := locks.Lock(context.Background(), lockmw.Key("user", "42")) // 42 orders elsewhere
	defer hold.Unlock()
	fmt.Println(post(r, "/users/42/orders"), post(r, "/users/%34%32/orders"), post(r, "/users/43/orders"))
	// Output:
	// 201
	// 409 409 201
}

// The caller's identity comes from the auth middleware; without it the answer is 401. A request waits
// for at most a second, and at most twenty requests wait together.
func Example_claim() {
	r := chi.NewRouter()
	r.With(httpmw.WithLock(lockmw.NewLocal(), httpmw.By("user", httpmw.Claim(userID)),
		lockmw.WithWait(time.Second), lockmw.WithMaxWaiters(20), httpmw.WithMethods(http.MethodPost))).
		Post("/orders", create)

	auth := func(w http.ResponseWriter, req *http.Request) {
		r.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), userKey{}, "42")))
	}
	fmt.Println(post(r, "/orders"), post(http.HandlerFunc(auth), "/orders"))
	// Output: 401 201
}

// Key functions of httprate work as key functions here: plain functions as parts, its own type by
// conversion. Any function of a request works as well.
func Example_keysFromHTTPRate() {
	locks := lockmw.NewLocal()
	for _, lock := range []func(http.Handler) http.Handler{
		httpmw.WithLock(locks, httpmw.By("endpoint", httprate.KeyByEndpoint)),
		httpmw.WithLock(locks, httpmw.KeyFunc(httprate.JoinKeys(httprate.KeyByEndpoint))),
		httpmw.WithLock(locks, func(r *http.Request) (string, error) { return lockmw.Key("host", r.Host), nil }),
	} {
		fmt.Println(post(lock(http.HandlerFunc(create)), "/orders"))
	}
	// Output:
	// 201
	// 201
	// 201
}

// A task and a request for the same item use the same lock and share one policy. With Configure, a
// task whose lock is busy returns to the queue without spending a retry.
func Example_taskByItem() {
	locks := lockmw.NewLocal()
	perItem := lockmw.JoinOptions(lockmw.WithName("item"), lockmw.WithLease(10*time.Second))
	_ = httpmw.WithLock(locks, httpmw.By("item", httpmw.PathValue("item")), perItem)

	item := asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))
	mux := asynq.NewServeMux()
	mux.Use(asynqmw.Trace(nil))
	mux.Handle("order:fulfil", asynqmw.WithLock(locks, item, perItem,
		asynqmw.WithRequeueDelay(time.Second, 5*time.Second))(asynq.HandlerFunc(fulfil)))

	cfg := asynqmw.Configure(asynq.Config{Concurrency: 10, DelayedTaskCheckInterval: time.Second})
	_ = asynq.NewServer(asynq.RedisClientOpt{Addr: "localhost:6379"}, cfg) // its Run(mux) calls mux as below

	ctx := cfg.BaseContext()
	task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), asynqmw.Headers(ctx))
	fmt.Println(mux.ProcessTask(ctx, task))

	_, hold, _ := locks.Lock(ctx, "item:7") // as if a request held it
	defer hold.Unlock()
	err := mux.ProcessTask(ctx, task)
	fmt.Println("comes back:", asynqmw.IsBusy(err), "spends a retry:", cfg.IsFailure(err))
	// Output:
	// <nil>
	// comes back: true spends a retry: false
}

// Code that needs the lock may take it again. With the context of the first hold, this costs no round
// trip.
func Example_nested() {
	locks := lockmw.NewLocal()
	charge := func(ctx context.Context, o Order) error {
		return lockmw.Do(ctx, locks, lockmw.Key("user", o.User), func(ctx context.Context) error {
			return handle(ctx, o)
		})
	}

	ctx, hold, err := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()
	fmt.Println(charge(ctx, Order{User: "42"}))
	// Output: <nil>
}

// GET, HEAD and OPTIONS share the lock; other methods hold it alone.
func Example_readOrWriteByMethod() {
	locks := lockmw.NewLocal()
	r := chi.NewRouter()
	r.With(httpmw.WithRWLock(locks, httpmw.By("item", httpmw.URLParam("itemID")))).
		HandleFunc("/items/{itemID}", create)

	_, reading, _ := locks.RLocker().Lock(context.Background(), "item:7")
	defer reading.Unlock()
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/items/7", nil))
	fmt.Println(rec.Code, post(r, "/items/7"))
	// Output: 201 409
}

// Several locks together, in a function and on a route: all or none, in an order that cannot deadlock.
func Example_severalAtOnce() {
	locks := lockmw.NewLocal()
	ctx, holds, err := lockmw.LockAll(context.Background(), locks,
		[]string{lockmw.Key("account", "b"), lockmw.Key("account", "a")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer holds.Unlock()
	fmt.Println(len(holds), ctx.Err())

	r := chi.NewRouter()
	r.With(httpmw.WithLockAll(locks, httpmw.All(
		httpmw.By("user", httpmw.Header("X-User")),
		httpmw.By("item", httpmw.URLParam("itemID")),
	), lockmw.WithWait(lockmw.Forever))).Post("/items/{itemID}/orders", create)
	fmt.Println(post(r, "/items/7/orders")) // no X-User
	// Output:
	// 2 <nil>
	// 400
}

// Any function can be wrapped; the compiler infers the types.
func Example_anyFunction() {
	locks, ctx := lockmw.NewLocal(), context.Background()

	buy := lockmw.WithLockValue(locks, byItem, place, lockmw.WithWait(time.Second))
	receipt, err := buy(ctx, Order{Item: "7"})
	fmt.Println(receipt.ID, err)

	consume := lockmw.WithLock(locks, byItem, handle)
	fmt.Println(consume(ctx, Order{Item: "7"}))

	byBoth := lockmw.By("order", func(o Order) string { return o.User }, func(o Order) string { return o.Item })
	buyOnce := lockmw.WithLockValue(locks, byBoth,
		func(_ context.Context, o Order) (Receipt, error) { return Receipt{"once-" + o.Item}, nil })
	_, err = buyOnce(ctx, Order{Item: "7"}) // the user is missing
	fmt.Println(errors.Is(err, lockmw.ErrInvalidKey))
	// Output:
	// R-7 <nil>
	// <nil>
	// true
}

// The errors to branch on. Details are in *lockmw.Error.
func Example_errors() {
	locks, ctx := lockmw.NewLocal(), context.Background()
	_, hold, _ := locks.Lock(ctx, "user:42")
	defer hold.Unlock()

	err := lockmw.Do(ctx, locks, "user:42", func(context.Context) error { return nil },
		lockmw.WithWait(time.Millisecond), lockmw.WithMaxWaiters(50))
	e, _ := errors.AsType[*lockmw.Error](err)
	switch {
	case errors.Is(err, lockmw.ErrBusy):
		fmt.Println("busy:", e.ErrorType(), e.Waited >= time.Millisecond, len(e.Holders))
	case errors.Is(err, lockmw.ErrTooManyWaiters), errors.Is(err, lockmw.ErrUnavailable):
		fmt.Println("later:", e.RetryAfter)
	}
	// Output: busy: lock_timeout true 1
}

// The database checks the token: it refuses a token smaller than the last one that it stored.
func Example_fencedWrite() {
	sell := func(ctx context.Context, db *sql.DB, item string) error {
		hold, err := lockmw.Held(ctx, lockmw.Key("item", item))
		if err != nil {
			return err
		}
		res, err := db.ExecContext(ctx,
			`UPDATE items SET stock = stock - 1, fence = $1 WHERE id = $2 AND stock > 0 AND fence <= $1`, hold.Token(), item)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errors.New("sold out, or a newer holder has written"))
		}
		return nil
	}
	fmt.Println(errors.Is(sell(context.Background(), nil, "7"), lockmw.ErrNotHeld)) // the lock was never acquired
	// Output: true
}

// Long work should watch its context. WithMaxHold limits the hold even if it does not.
func Example_lostLock() {
	locks := lockmw.NewLocal()
	err := lockmw.Do(context.Background(), locks, "report:nightly", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Minute):
			return nil
		}
	}, lockmw.WithMaxHold(5*time.Millisecond))
	fmt.Println(errors.Is(err, lockmw.ErrLost))
	// Output: true
}

// A Client with tracing and a hook. It sends nothing before the first lock.
func Example_client() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	locks, err := lockmw.New(rdb,
		lockmw.WithPrefix("shop"),
		lockmw.WithLease(15*time.Second),
		lockmw.WithObserver(tracing.New(tracing.WithKeyRedactor(tracing.HashKey([]byte("secret"))))),
		lockmw.WithObserver(&lockmw.Observer{Lost: func(context.Context, lockmw.Attempt, error) {}}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(locks.Close())
	// Output: <nil>
}

// An operator lists locks and releases holds that hang. The holder's next renewal detects the loss.
func Example_operator() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	ctx := context.Background()

	insp, err := lockmw.NewInspector(rdb, lockmw.WithPrefix("shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for s, err := range insp.All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(s.Key, s.Mode, s.Waiting())
		for _, h := range s.Holders {
			if time.Since(h.Since) < time.Hour {
				continue
			}
			if err := insp.ForceUnlock(ctx, s.Key, h); err != nil && !errors.Is(err, lockmw.ErrNotHeld) {
				fmt.Println(err)
			}
		}
	}
}

// Work that is safe without the lock may run while Redis is down. The error handler replaces one
// answer and keeps the others.
func Example_failOpen() {
	locks := lockmw.NewLocal()
	h := httpmw.WithLock(locks, httpmw.By("host", func(r *http.Request) (string, error) { return r.Host, nil }),
		lockmw.WithFailOpen(),
		httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, lockmw.ErrBusy) {
				w.WriteHeader(http.StatusLocked)
				return
			}
			httpmw.WriteError(w, r, err)
		}))(http.HandlerFunc(create))

	_, hold, _ := locks.Lock(context.Background(), "host:example.com")
	defer hold.Unlock()
	fmt.Println(post(h, "/orders"))
	// Output: 423
}

// A service tests its answers for a busy lock and for an unavailable Redis.
func TestSecondOrderIsRefused(t *testing.T) {
	local := lockmw.NewLocal()
	_, hold, err := local.Lock(t.Context(), "user:42") // as another request
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()
	down := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, lockmw.ErrUnavailable
	})

	for _, test := range []struct {
		name   string
		locks  lockmw.Locker
		user   string
		status int
	}{
		{"busy", local, "42", http.StatusConflict},
		{"free", local, "43", http.StatusCreated},
		{"redis is down", down, "42", http.StatusServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle("POST /users/{userID}/orders",
				httpmw.WithLock(test.locks, httpmw.By("user", httpmw.PathValue("userID")))(http.HandlerFunc(create)))
			if got := post(mux, "/users/"+test.user+"/orders"); got != test.status {
				t.Errorf("status %d, want %d", got, test.status)
			}
		})
	}
}

// A service tests that its work stops when the lock is lost.
func TestWorkStopsWhenTheLockIsLost(t *testing.T) {
	local := lockmw.NewLocal()
	err := lockmw.Do(t.Context(), local, "user:42", func(ctx context.Context) error {
		local.Expire("user:42")
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}
