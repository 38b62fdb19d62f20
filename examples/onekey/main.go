// Onekey shows one lock for a route and a task. The route sells an item, the task restocks it. Both lock the key
// "item:" plus the item's ID, so they never run at the same time for the same item.
//
//	go run ./examples/onekey
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-chi/chi/v5"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// A restock is the payload of the task.
type restock struct{ Item string }

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // commands return their errors
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "onekey:", err)
		os.Exit(1)
	}
}

// run restocks item 7 and meanwhile sells items 7 and 8.
func run(ctx context.Context, out io.Writer) (err error) {
	server := miniredis.NewMiniRedis() // in production: your Redis
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	locks, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()

	restocking := make(chan struct{})
	log := &journal{out: out, start: time.Now()}
	shop := httptest.NewServer(routes(locks, log))
	defer shop.Close()

	opt := asynq.RedisClientOpt{Addr: server.Addr()}
	tasks := asynq.NewClient(opt)
	defer func() { err = errors.Join(err, tasks.Close()) }()
	worker := asynq.NewServer(opt, asynqmw.Configure(asynq.Config{
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: time.Second,
		LogLevel:                 asynq.FatalLevel,
	}))
	if err := worker.Start(handlers(locks, tasks, log, restocking)); err != nil {
		return err
	}
	defer worker.Shutdown()

	if _, err := tasks.EnqueueContext(ctx, asynq.NewTask("item:restock", []byte(`{"Item":"7"}`))); err != nil {
		return err
	}
	<-restocking
	var sales [2]error
	var wg sync.WaitGroup
	for i, item := range []string{"7", "8"} {
		wg.Go(func() { sales[i] = buy(ctx, shop.URL, item) })
	}
	wg.Wait()
	return errors.Join(sales[:]...)
}

// routes is the HTTP side. A sale waits up to 5 s for other work on the same item.
func routes(locks lockmw.Locker, log *journal) http.Handler {
	item := httpmw.By("item", httpmw.URLParam("item"))
	r := chi.NewRouter()
	r.With(httpmw.WithLock(locks, item, lockmw.WithWait(5*time.Second))).
		Post("/items/{item}/sell", func(w http.ResponseWriter, r *http.Request) {
			log.add("request", "sells", chi.URLParam(r, "item"))
			w.WriteHeader(http.StatusCreated)
		})
	return r
}

// handlers is the task side. A task whose item is busy returns to the queue. WithRescue saves it even if this was its
// last attempt.
func handlers(locks lockmw.Locker, tasks *asynq.Client, log *journal, restocking chan<- struct{}) asynq.Handler {
	item := asynqmw.By("item", asynqmw.Payload(func(r restock) string { return r.Item }))
	mux := asynq.NewServeMux()
	mux.Handle("item:restock", asynqmw.WithLock(locks, item, asynqmw.WithRescue(tasks))(asynq.HandlerFunc(
		func(_ context.Context, task *asynq.Task) error {
			var r restock
			if err := json.Unmarshal(task.Payload(), &r); err != nil {
				return err
			}
			log.add("task", "counts", r.Item)
			close(restocking)
			time.Sleep(300 * time.Millisecond) // the work
			log.add("task", "restocked", r.Item)
			return nil
		})))
	return mux
}

func buy(ctx context.Context, shop, item string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, shop+"/items/"+item+"/sell", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("sale of item %s: %s", item, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// A journal prints events in order.
type journal struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func (j *journal) add(who, does, item string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(j.out, "%4d ms  %-7s %s item %s\n", time.Since(j.start).Milliseconds(), who, does, item)
}
