package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/lockmw"
)

// A job describes a worker process, which is an asynq server.
type job struct {
	Addr    string
	Page    string // where holders record that they hold a lock
	Workers int
	Lock    string // plain (asynq alone), none, wait, setnx or default
	Queues  int    // in addition to the default one
}

// A payload describes the work of a task.
type payload struct {
	Key  string
	Cell int           // of the key, in the page; -1: the key is unique
	Work time.Duration // how long the handler sleeps
	Hot  bool
}

// A tally is a worker process' work with tasks of one sort.
type tally struct {
	Ran   int64
	Empty int64 // attempts without the lock
	Last  int64 // when the last task ended, in Unix ns
}

func (t *tally) add(more tally) {
	t.Ran += more.Ran
	t.Empty += more.Empty
	t.Last = max(t.Last, more.Last)
}

// A report is the answer of a worker process.
type report struct {
	Hot, Others tally
	Violations  int64
	Scripts     int64 // scripts that asynqmw ran in the queues
}

const typename = "bench:task"

// work runs a worker process.
func work(j job, parent *crew.Parent) error {
	page, err := exclusion.Open(j.Page)
	if err != nil {
		return err
	}
	defer page.Close()
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	defer rdb.Close()
	w := &worker{page: page, checked: j.Lock != "none"}
	rdb.AddHook(countScripts{&w.scripts})
	locks, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	defer locks.Close()

	// README's first task: only WithLock and Configure.
	cfg := asynq.Config{Concurrency: j.Workers, DelayedTaskCheckInterval: time.Second, LogLevel: asynq.FatalLevel}
	cfg.Queues = map[string]int{"default": 1}
	for i := range j.Queues {
		cfg.Queues[queueName(i)] = 1
	}
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
	if j.Lock != "plain" {
		cfg = asynqmw.Configure(cfg)
	}
	mux := asynq.NewServeMux()
	mux.Use(w.count)
	mux.Handle(typename, locked(asynq.HandlerFunc(w.process)))
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: j.Addr}, cfg)
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
	scripts     atomic.Int64
}

// queueName returns the name of an additional queue.
func queueName(i int) string { return fmt.Sprint("queue", i) }

// countScripts is a hook that counts the scripts that a client runs on asynq's keys.
type countScripts struct{ n *atomic.Int64 }

func (countScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c countScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c countScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (c countScripts) count(cmd redis.Cmder) {
	if args := cmd.Args(); cmd.Name() == "evalsha" && len(args) > 3 && strings.HasPrefix(fmt.Sprint(args[3]), "asynq:{") {
		c.n.Add(1)
	}
}

type counts struct{ ran, empty, last atomic.Int64 }

func (c *counts) tally() tally { return tally{c.ran.Load(), c.empty.Load(), c.last.Load()} }

func (w *worker) report() report {
	return report{Hot: w.hot.tally(), Others: w.others.tally(), Violations: w.page.Violations(), Scripts: w.scripts.Load()}
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

// plainly locks with the fewest commands: one before the handler, and one after it.
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
