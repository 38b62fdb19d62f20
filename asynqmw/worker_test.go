package asynqmw_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A workerSpec says what a worker process is to be: an asynq server with locks on one Redis.
type workerSpec struct {
	Addr        string
	Concurrency int
	Lease       time.Duration // 0: the default
	Wait        time.Duration // in a worker
	Journal     string        // the address of the journal's Redis; "": that of the queue
	Parks       bool          // tasks are called when their lock is free, not at once
	Lock        string        // for comparison: "none", or "SET NX" and a script that deletes
}

// run is the life of a worker process: it works until the end of its orders, of which there are none.
func (s workerSpec) run(orders *json.Decoder, _ *json.Encoder) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	opts := []lockmw.ClientOption{lockmw.WithLogger(slog.New(slog.DiscardHandler))}
	if s.Lease > 0 {
		opts = append(opts, lockmw.WithLease(s.Lease))
	}
	locks, err := lockmw.New(rdb, opts...)
	if err != nil {
		return err
	}
	defer locks.Close()
	locked := asynqmw.WithLock(locks, byItem, atOnce, lockmw.WithWait(s.Wait))
	if s.Parks {
		locked = asynqmw.WithLock(locks, byItem)
	}
	switch s.Lock {
	case "none":
		locked = func(h asynq.Handler) asynq.Handler { return h }
	case "SET NX":
		locked = plainly(rdb)
	}
	work := journal{rdb}
	if s.Journal != "" {
		work.rdb = redis.NewClient(&redis.Options{Addr: s.Journal})
		defer work.rdb.Close()
	}
	mux := asynq.NewServeMux()
	mux.Handle("order:fulfil", locked(asynq.HandlerFunc(work.fulfil)))
	mux.Handle("order:work", locked(asynq.HandlerFunc(work.work)))
	mux.Handle("order:write", locked(asynq.HandlerFunc(work.write)))
	mux.Handle("order:nothing", locked(handle(func(context.Context) error { return nil })))
	mux.Handle("order:query", locked(handle(func(context.Context) error {
		<-time.After(2 * time.Millisecond) // as if it queried a database
		return nil
	})))
	cfg := quickBare()
	cfg.Concurrency = s.Concurrency
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: s.Addr}, asynqmw.Configure(cfg))
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	return orders.Decode(new(any))
}

// plainly locks as little as can be, and with as little: one command before the handler, and one after it.
func plainly(rdb *redis.Client) asynq.MiddlewareFunc {
	release := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			key, err := byItem(ctx, task)
			if err != nil {
				return err
			}
			id := rand.Text()
			if err := rdb.SetArgs(ctx, key, id, redis.SetArgs{Mode: "NX", TTL: time.Minute}).Err(); err != nil {
				return err
			}
			defer func() { _ = release.Run(ctx, rdb, []string{key}, id).Err() }()
			return next.ProcessTask(ctx, task)
		})
	}
}

// startWorker starts a worker process. It must end when the test does.
func startWorker(t testing.TB, spec workerSpec) *redistest.Child {
	t.Helper()
	return redistest.StartChild(t, spec)
}
