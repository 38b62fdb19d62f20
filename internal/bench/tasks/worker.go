package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/lockmw"
)

// A job is what a worker process is to be: an asynq server.
type job struct {
	Addr    string
	Page    string // where holders say that they have a lock
	Workers int
	Lock    string // none, wait, setnx or default
}

// A payload is what a task is to do.
type payload struct {
	Key  string
	Cell int           // of the key, in the page; -1: it has the key for itself
	Work time.Duration // how long the handler sleeps
	Hot  bool
}

// A tally is what a worker process did with tasks of one sort.
type tally struct {
	Ran   int64
	Empty int64 // attempts that did not get their lock
	Last  int64 // when the last one ended, in Unix ns
}

func (t *tally) add(more tally) {
	t.Ran += more.Ran
	t.Empty += more.Empty
	t.Last = max(t.Last, more.Last)
}

// A report is what a worker process tells.
type report struct {
	Hot, Others tally
	Violations  int64
}

const typename = "bench:task"

// work is the life of a worker process.
func work(j job, parent *crew.Parent) error {
	page, err := exclusion.Open(j.Page)
	if err != nil {
		return err
	}
	defer page.Close()
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	defer rdb.Close()
	locks, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	defer locks.Close()

	w := &worker{page: page, checked: j.Lock != "none"}
	// README's first task: nothing but WithLock and Configure.
	cfg := asynq.Config{Concurrency: j.Workers, DelayedTaskCheckInterval: time.Second, LogLevel: asynq.FatalLevel}
	key := asynqmw.By("item", asynqmw.Payload(func(p payload) string { return p.Key }))
	locked := func(h asynq.Handler) asynq.Handler { return h }
	switch j.Lock {
	case "default":
		locked = asynqmw.WithLock(locks, key)
	case "wait":
		locked = asynqmw.WithLock(locks, key, lockmw.WithWait(5*time.Second))
	case "setnx":
		locked = plainly(rdb, key)
	}
	mux := asynq.NewServeMux()
	mux.Use(w.count)
	mux.Handle(typename, locked(asynq.HandlerFunc(w.process)))
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: j.Addr}, asynqmw.Configure(cfg))
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	if err := parent.Send("ready", nil); err != nil {
		return err
	}
	for {
		switch order := parent.Next(); order {
		case "tell":
			if err := parent.Send("tell", w.report()); err != nil {
				return err
			}
		case "end":
			return nil
		default:
			return fmt.Errorf("unknown order %q", order)
		}
	}
}

type worker struct {
	page        *exclusion.Page
	checked     bool // tasks of one key must not overlap
	hot, others counts
}

type counts struct{ ran, empty, last atomic.Int64 }

func (c *counts) tally() tally { return tally{c.ran.Load(), c.empty.Load(), c.last.Load()} }

func (w *worker) report() report {
	return report{Hot: w.hot.tally(), Others: w.others.tally(), Violations: w.page.Violations()}
}

// count counts attempts, whatever is between it and the handler.
func (w *worker) count(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := next.ProcessTask(ctx, task)
		c := &w.others
		var p payload
		if json.Unmarshal(task.Payload(), &p) == nil && p.Hot {
			c = &w.hot
		}
		switch {
		case asynqmw.IsBusy(err):
			c.empty.Add(1)
		case err == nil:
			c.ran.Add(1)
			c.last.Store(time.Now().UnixNano())
		}
		return err
	})
}

func (w *worker) process(_ context.Context, task *asynq.Task) error {
	var p payload
	if err := json.Unmarshal(task.Payload(), &p); err != nil {
		return err
	}
	if p.Cell >= 0 && w.checked {
		w.page.Enter(p.Cell)
		defer w.page.Leave(p.Cell)
	}
	time.Sleep(p.Work)
	return nil
}

// plainly locks with as little as can be: one command before the handler, and one after it.
func plainly(rdb *redis.Client, key asynqmw.KeyFunc) asynq.MiddlewareFunc {
	release := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			key, err := key(ctx, task)
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
