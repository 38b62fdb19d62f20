package docs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Blocks of the guides whose headings are questions.

func fiveCalls(ctx context.Context, user string) error {
	locks, err := lockmw.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"})) // once in each process
	if err != nil {
		return err
	}
	defer locks.Close()
	acme := semaphore.New(locks, 5) // five permits for each key, over all processes

	charge := func(ctx context.Context, user string) error {
		ctx, permit, err := acme.Lock(ctx, lockmw.Key("api", "acme"), lockmw.WithWait(2*time.Second))
		if errors.Is(err, lockmw.ErrBusy) {
			return fmt.Errorf("five calls to acme were running for 2 s: %w", err)
		}
		if err != nil {
			return err // Redis is unavailable, for example
		}
		defer permit.Unlock()

		return bill(ctx, user) // the call to acme; ctx ends if the permit is lost
	}
	return charge(ctx, user)
}

const (
	readItem  = "SELECT …" // as in docs/fencing.md, whose statements a test in examples/stock runs
	writeItem = "UPDATE …"
)

func fencedWrite(ctx context.Context, db *sql.DB, item string) error {
	hold, err := lockmw.Held(ctx, lockmw.Key("item", item)) // proof that ctx holds the lock
	if err != nil {
		return err
	}
	var stock, fence int64
	if err := db.QueryRowContext(ctx, readItem, item).Scan(&stock, &fence); err != nil {
		return err
	}
	// … decide, take the payment, call other services …
	res, err := db.ExecContext(ctx, writeItem, stock-1, hold.Token(), item, fence)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errors.New("another caller has written: read again, or give up"))
	}
	return nil
}

func openedWrite(hold *lockmw.Hold, fence int64) int64 {
	token := hold.Token()
	if token == 0 { // no lock: only the fence that was read protects this write
		token = fence + 1
	}
	return token
}

// What docs/timeouts.md recommends for outages of Redis.
func outages(ctx context.Context, rdb *redis.Client, client *asynq.Client, task *asynq.Task, item string) (*http.Server, error) {
	locks, err := lockmw.New(rdb, lockmw.WithUnlockTimeout(500*time.Millisecond))
	if err != nil {
		return nil, err
	}

	r := chi.NewRouter()
	r.Use(middleware.Recoverer, authenticate, middleware.Timeout(10*time.Second))
	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.Claim(userID)),
		lockmw.WithWait(500*time.Millisecond), // for a busy lock and for Redis
	)).Post("/orders", createOrder)

	srv := &http.Server{
		Handler:      r,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 15 * time.Second, // longer than the 10 s above
	}

	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.Claim(userID)),
		lockmw.WithWait(300*time.Millisecond), // after that the handler runs, if Redis is the reason
		lockmw.WithFailOpen(),
	)).Post("/carts", createOrder)

	err = lockmw.Do(ctx, locks, lockmw.Key("item", item), placeOrder,
		lockmw.WithLease(2*time.Minute)) // a hold survives an outage of one minute
	if errors.Is(err, lockmw.ErrUnavailable) { // placeOrder has not run
		select {
		case <-time.After(5 * time.Second): // Redis is full or refuses this client
		case <-ctx.Done():
		}
	}

	_, err = client.Enqueue(task, asynq.Timeout(2*time.Minute), asynq.MaxRetry(10))
	return srv, err
}

func eachHour(ctx context.Context, locks *lockmw.Client, makeReport func(context.Context) error, logTick func(bool, error)) error {
	for {
		next := time.Now().Truncate(time.Hour).Add(time.Hour) // the next full hour, UTC
		select {
		case <-time.After(time.Until(next)):
			logTick(lockmw.Once(ctx, locks, "report:hourly", lockmw.Every(time.Hour), makeReport))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func wideTick(at time.Time) lockmw.Tick {
	t := lockmw.Tick{At: at, Within: 15 * time.Minute}
	return t
}

func behindProxy() error {
	rdb := redis.NewClient(&redis.Options{Addr: "redis.example:10000"})
	locks, err := lockmw.New(rdb, lockmw.WithSlottedKeys())
	_ = locks
	return err
}

// The block of docs/migrating.md.

func firstDeployment(ctx context.Context, rdb *redis.Client, sell func(context.Context) error) error {
	client, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	locks := bridge.Redsync(client, rdb) // rdb is the client that redsync has

	err = lockmw.Do(ctx, locks, "item:7", func(ctx context.Context) error {
		return sell(ctx)
	})
	if old, ok := errors.AsType[*bridge.OldKeyError](err); ok && errors.Is(err, lockmw.ErrBusy) {
		log.Printf("busy: %v", old) // old code has the lock
	}
	return err
}

var _ = firstDeployment
