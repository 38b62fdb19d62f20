package docs

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
	"github.com/lockmw/go/tracing"
)

// Each Go block of the documents is also here, line by line, so that the compiler checks it. The code around it is what a
// service has anyway.
var _ = []any{
	overNodes, firstLock, lockByHand, firstRoute, firstTask,
	wrapped, constant, leader, oneRun, oneScheduler, several, charge, inOrder, reading, keptPlace, traced, logged,
	parts, mounted, traceTasks, keptTurn, secured, permits, bulkhead, tooMany, exportTasks, pageOfLocks, mayForce, operators, recorded, silenced,
	fencedWrite, openedWrite, eachHour, wideTick, fiveCalls, outages, onceOnly, behindProxy,
}

type (
	Order   struct{ User, Item, Customer string }
	Receipt struct{ ID string }
	Export  struct{ Tenant string }
)

var (
	placeOrder   func(context.Context) error
	place        func(context.Context, Order) (Receipt, error)
	bill         func(ctx context.Context, user string) error
	fulfil       func(context.Context, *asynq.Task) error
	createOrder  func(http.ResponseWriter, *http.Request)
	authenticate func(http.Handler) http.Handler
	pay          func(http.ResponseWriter, *http.Request)
	userID       func(context.Context) (string, bool)
	redisOpt     asynq.RedisClientOpt
)

func overNodes() error {
	var nodes []*lockmw.Client
	for _, addr := range []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"} {
		node, err := lockmw.New(redis.NewClient(&redis.Options{Addr: addr}), lockmw.WithQuarantine(time.Minute))
		if err != nil {
			return err
		}
		defer node.Close()
		nodes = append(nodes, node)
	}
	locks := redlock.New(nodes)
	defer locks.Close()
	return lockmw.Do(context.Background(), locks, lockmw.Key("user", "42"), placeOrder)
}

func firstLock(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	locks, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	defer locks.Close() // rdb stays open

	err = lockmw.Do(ctx, locks, lockmw.Key("user", "42"), func(ctx context.Context) error {
		return placeOrder(ctx) // ctx ends if the lock is lost
	})
	return err
}

func lockByHand(ctx context.Context, locks *lockmw.Client, userID string) error {
	ctx, hold, err := locks.Lock(ctx, lockmw.Key("user", userID))
	if err != nil {
		return err
	}
	defer hold.Unlock()
	return placeOrder(ctx)
}

func firstRoute(locks *lockmw.Client) {
	r := chi.NewRouter()
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
		Post("/users/{userID}/orders", createOrder)
}

func firstTask(locks *lockmw.Client) error {
	srv := asynq.NewServer(redisOpt, asynqmw.Configure(asynq.Config{
		Concurrency:              10,
		DelayedTaskCheckInterval: time.Second,
	}))

	byItem := asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))
	mux := asynq.NewServeMux()
	mux.Handle("order:fulfil", asynqmw.WithLock(locks, byItem)(asynq.HandlerFunc(fulfil)))

	return srv.Run(mux)
}

func wrapped(ctx context.Context, locks *lockmw.Client, order Order) (Receipt, error) {
	buy := lockmw.WithLockValue(locks,
		lockmw.By("item", func(o Order) string { return o.Item }),
		place, // func(context.Context, Order) (Receipt, error)
		lockmw.WithWait(time.Second))

	receipt, err := buy(ctx, order)
	return receipt, err
}

func constant(locks *lockmw.Client, makeReport func(context.Context, time.Time) error) func(context.Context, time.Time) error {
	report := lockmw.WithLock(locks, lockmw.Const[time.Time]("report", "nightly"), makeReport)
	return report
}

func leader(ctx context.Context, locks *lockmw.Client, consume func(context.Context) error) error {
	err := lockmw.Lead(ctx, locks, "lead:billing", func(ctx context.Context) error {
		return consume(ctx) // until ctx ends
	})
	return err
}

func oneRun(ctx context.Context, locks *lockmw.Client, makeReport func(context.Context) error) (bool, error) {
	ran, err := lockmw.Once(ctx, locks, "report:hourly", lockmw.Every(time.Hour), makeReport)
	return ran, err
}

func oneScheduler(ctx context.Context, locks *lockmw.Client) error {
	err := asynqmw.RunScheduler(ctx, locks, "lead:scheduler", redisOpt,
		func(redisOpt asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
			s := asynq.NewScheduler(redisOpt, nil)
			_, err := s.Register("@every 1m", asynq.NewTask("report", nil))
			return s, err
		})
	return err
}

func several(ctx context.Context, locks *lockmw.Client, from, to string) error {
	ctx, holds, err := lockmw.LockAll(ctx, locks,
		[]string{lockmw.Key("account", from), lockmw.Key("account", to)})
	if err != nil {
		return err
	}
	defer holds.Unlock()
	return placeOrder(ctx)
}

func charge(ctx context.Context, locks lockmw.Locker, user string) error {
	return lockmw.Do(ctx, locks, lockmw.Key("user", user), func(ctx context.Context) error {
		return bill(ctx, user)
	})
}

func inOrder(ctx context.Context, locks *lockmw.Client, id string) (context.Context, *lockmw.Hold, error) {
	fair := fairlock.New(locks)
	ctx, hold, err := fair.Lock(ctx, lockmw.Key("item", id), lockmw.WithWait(time.Minute))
	return ctx, hold, err
}

func reading(ctx context.Context, locks *lockmw.Client, id string) (context.Context, *lockmw.Hold, error) {
	rw := rwlock.New(locks)
	ctx, hold, err := rw.RLock(ctx, lockmw.Key("price", id)) // rw.Lock writes; rw.Downgrade(ctx, hold) makes a write hold a read hold
	return ctx, hold, err
}

func keptPlace(ctx context.Context, fair *fairlock.Locker, id, taskID string) (*lockmw.Hold, error) {
	_, hold, err := fair.Lock(ctx, lockmw.Key("item", id),
		lockmw.WithWait(time.Second), lockmw.WithPlace(taskID, time.Minute))
	return hold, err
}

func traced(rdb *redis.Client) (*lockmw.Client, error) {
	locks, err := lockmw.New(rdb, lockmw.WithObserver(tracing.New()))
	return locks, err
}

func logged(rdb *redis.Client) (*lockmw.Client, error) {
	locks, err := lockmw.New(rdb, lockmw.WithObserver(locklog.New(nil))) // nil: the default logger
	return locks, err
}

func silenced() {
	redis.SetLogger(&logging.VoidLogger{}) // github.com/redis/go-redis/v9/logging
}

func recorded(rdb *redis.Client) error {
	inspector, err := lockmw.NewInspector(rdb)
	if err != nil {
		return err
	}
	events := lockevents.New(inspector)
	defer events.Close()
	locks, err := lockmw.New(rdb, lockmw.WithObserver(events.Observer()))
	_ = locks
	return err
}

func parts() {
	_ = []httpmw.KeyFunc{
		httpmw.By("user", httpmw.URLParam("userID")),  // chi:      /users/{userID}/orders
		httpmw.By("user", httpmw.PathValue("userID")), // net/http: POST /users/{userID}/orders
		httpmw.By("user", httpmw.Claim(userID)),       // func userID(context.Context) (string, bool): from authentication
		httpmw.By("tenant", httpmw.Header("X-Tenant")),
		httpmw.By("customer", httpmw.JSON("/customer/id")), // a JSON pointer (RFC 6901) into the body
	}
}

func mounted(locks *lockmw.Client) {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, authenticate, middleware.Timeout(30*time.Second))
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
		Post("/users/{userID}/orders", createOrder)
}

func traceTasks(locks *lockmw.Client) error {
	srv := asynq.NewServer(redisOpt, asynqmw.Configure(asynq.Config{
		Concurrency:              10,
		DelayedTaskCheckInterval: time.Second,
	}))

	byCustomer := asynqmw.By("customer", asynqmw.Payload(func(o Order) string { return o.Customer }))
	mux := asynq.NewServeMux()
	mux.Use(asynqmw.Trace(nil))
	mux.Handle("order:fulfil", asynqmw.WithLock(locks, byCustomer)(asynq.HandlerFunc(fulfil)))

	return srv.Run(mux)
}

func keptTurn(locks *lockmw.Client, byCustomer asynqmw.KeyFunc, client *asynq.Client, mux *asynq.ServeMux) {
	fair := fairlock.New(locks)
	mux.Handle("order:fulfil", asynqmw.WithLock(fair, byCustomer,
		asynqmw.WithRequeueDelay(0, time.Second),
		asynqmw.WithPlaceKept(time.Minute), // longer than the task takes to come back
		asynqmw.WithRescue(client),         // an *asynq.Client
	)(asynq.HandlerFunc(fulfil)))
}

func secured() error {
	opts, err := redis.ParseURL("rediss://orders:a-long-password@redis.example.com:6380/0") // rediss: with TLS
	if err != nil {
		return err
	}
	locks, err := lockmw.New(redis.NewClient(opts))
	if err != nil {
		return err
	}
	return locks.Close()
}

func permits(ctx context.Context, locks *lockmw.Client, tenant string) error {
	exports := semaphore.New(locks, 3) // a *lockmw.Client, and how many may hold a key

	ctx, hold, err := exports.Lock(ctx, lockmw.Key("exports", tenant))
	if err != nil {
		return err
	}
	defer hold.Unlock()

	return placeOrder(ctx)
}

func bulkhead(locks *lockmw.Client, r chi.Router) {
	r.With(httpmw.WithLock(semaphore.New(locks, 20), httpmw.Const("payments", "gateway"))).
		Post("/payments", pay)
}

func tooMany() httpmw.Option {
	tooMany := httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		if e, ok := errors.AsType[*lockmw.Error](err); ok && errors.Is(err, lockmw.ErrBusy) {
			w.Header().Set("Retry-After", strconv.Itoa(max(1, int(e.RetryAfter.Seconds()))))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		httpmw.WriteError(w, r, err)
	})
	return tooMany
}

func exportTasks(locks *lockmw.Client, mux *asynq.ServeMux, handler asynq.Handler) {
	byTenant := asynqmw.By("exports", asynqmw.Payload(func(e Export) string { return e.Tenant }))
	mux.Handle("export", asynqmw.WithLock(semaphore.New(locks, 3), byTenant)(handler))
}

func pageOfLocks(rdb redis.UniversalClient, r chi.Router, oncall map[string]string) error {
	insp, err := lockmw.NewInspector(rdb)
	if err != nil {
		return err
	}
	r.With(middleware.BasicAuth("locks", oncall)).Mount("/ops/locks", inspector.Handler(insp))
	return nil
}

func mayForce(insp *lockmw.Inspector) http.Handler {
	page := inspector.Handler(insp, inspector.WithForceUnlock(func(r *http.Request) bool {
		user, _, _ := r.BasicAuth()
		return user == "oncall"
	}))
	return page
}

func operators(insp *lockmw.Inspector) http.Handler {
	page := inspector.Handler(insp, inspector.WithOperator(func(r *http.Request) string {
		user, _, _ := r.BasicAuth()
		return user
	}))
	return page
}

func onceOnly(locks *lockmw.Client) http.Handler {
	once := idempotency.New(locks)
	r := chi.NewRouter()
	r.With(httpmw.Idempotent(once, httpmw.Claim(userID), idempotency.Refuse)).Post("/orders", createOrder)
	return r
}
