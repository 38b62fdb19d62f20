package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/lockmw"
)

// The sizes of workloads whose cost should stay constant.
var (
	queueCounts = []int{1, 3, 9}
	listCounts  = []int{10, 100, 1000}
	taskCounts  = []int{50, 100, 200}
)

// idleServers compares servers whose queues are empty with asynq alone.
func idleServers(ctx context.Context, b *bench) ([]figure, error) {
	var all []figure
	var rates []float64
	for _, n := range b.sizes(queueCounts) {
		plain, err := b.rate(ctx, b.idle("plain", n), scripts)
		if err != nil {
			return nil, err
		}
		rate, err := b.rate(ctx, b.idle(b.lock, n), scripts)
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate/float64(len(b.workers)))
		all = append(all, one(fmt.Sprintf("%d queues: scripts / those of asynq alone", n), 2, rate/plain))
	}
	return append(all, exponent("queues: exponent of scripts", 1.1, b.sizes(queueCounts), rates)), nil
}

// lockedLists measures the cost of lists of locks that are constantly held.
func lockedLists(ctx context.Context, b *bench) ([]figure, error) {
	plain, err := b.rate(ctx, b.idle("plain", 1), commands)
	if err != nil {
		return nil, err
	}
	var all []figure
	var rates []float64
	for _, n := range b.sizes(listCounts) {
		exists := 0.0
		rate, err := b.rate(ctx, scene{lock: b.lock, lists: n}, func(s server.Stats) int64 {
			exists = float64(s.Calls["exists"])
			return commands(s)
		})
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate-plain)
		all = append(all, one(fmt.Sprintf("%d lists: commands/s more than asynq alone", n), 50, rate-plain),
			one(fmt.Sprintf("%d lists: EXISTS/s", n), 0, exists/window.Seconds()))
	}
	return append(all, exponent("lists: exponent of commands", 0.2, b.sizes(listCounts), rates)), nil
}

// parkedTasks counts the scripts that parking runs in the queue, also for tasks that are so short that several are woken
// together.
func parkedTasks(ctx context.Context, b *bench) ([]figure, error) {
	var all []figure
	for _, kind := range []struct {
		name string
		work time.Duration
	}{{"10 ms", handler}, {"2 ms", 2 * time.Millisecond}} {
		var counts []float64
		for _, n := range b.sizes(taskCounts) {
			got, err := b.measure(ctx, load{hot: n, keys: 1, work: kind.work}, b.lock, b.workers...)
			if err != nil {
				return nil, err
			}
			counts = append(counts, float64(got.scripts))
			all = append(all, one(fmt.Sprintf("%d tasks of %s: scripts of parking, a task", n, kind.name), 3, float64(got.scripts)/float64(n)))
		}
		all = append(all, exponent("tasks of "+kind.name+": exponent of scripts", 1.2, b.sizes(taskCounts), counts))
	}
	return all, nil
}

// sizes returns the sizes of a workload; in a quick run the smallest and the middle one.
func (b *bench) sizes(all []int) []int {
	if b.quick {
		return all[:2]
	}
	return all
}

// window is how long commands are counted: no parked task comes back by the clock within it.
const window = 6 * time.Second

// A scene is a set of idle servers.
type scene struct {
	lock   string
	queues int // in addition to the default one
	lists  int // held locks, each with a waiting task
}

func (b *bench) idle(lock string, queues int) scene { return scene{lock: lock, queues: queues - 1} }

// prepare holds the locks of a scene and enqueues its tasks. Call end after it.
func (b *bench) prepare(ctx context.Context, rdb *redis.Client, n int) (end func(), err error) {
	locks, err := lockmw.New(rdb, lockmw.WithLease(10*time.Minute)) // not renewed while commands are counted
	if err != nil {
		return nil, err
	}
	end = func() { _ = locks.Close() }
	l := load{hot: n, keys: n, work: handler}
	for _, p := range l.payloads() {
		if _, _, err := locks.Lock(ctx, "item:"+p.Key); err != nil {
			end()
			return nil, err
		}
	}
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: b.redis.Addr})
	defer client.Close()
	if err := l.enqueue(client); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// settled is how long servers take to become idle after their start, or their last task.
const settled = 5 * time.Second

// rate returns the commands per second of servers, from the statistics of Redis.
func (b *bench) rate(ctx context.Context, s scene, count func(server.Stats) int64) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.redis.Clean(ctx); err != nil {
		return 0, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: b.redis.Addr})
	defer rdb.Close()
	if s.lists > 0 {
		end, err := b.prepare(ctx, rdb, s.lists)
		if err != nil {
			return 0, err
		}
		defer end()
	}
	c, err := b.start(ctx, s)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := b.calm(ctx, rdb); err != nil {
		return 0, err
	}
	did, err := b.watch(ctx)
	if err != nil {
		return 0, err
	}
	if err := c.Send("end"); err != nil {
		return 0, err
	}
	c.Wait(15 * time.Second)
	return float64(count(did)) / window.Seconds(), nil
}

// start starts the servers of a scene.
func (b *bench) start(ctx context.Context, s scene) (*crew.Crew, error) {
	b.n++
	page := filepath.Join(b.dir, fmt.Sprint(b.n, "-idle"))
	if err := exclusion.Create(page, s.lists+1); err != nil {
		return nil, err
	}
	var jobs []job
	for _, n := range b.workers {
		jobs = append(jobs, job{Addr: b.redis.Addr, Page: page, Workers: n, Lock: s.lock, Queues: s.queues})
	}
	c, err := crew.Start(ctx, 0, jobs...)
	if err != nil {
		return nil, err
	}
	if err := c.Expect("ready"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// watch returns the server's work for a while.
func (b *bench) watch(ctx context.Context) (server.Stats, error) {
	before, err := b.redis.Stats(ctx)
	if err != nil {
		return before, err
	}
	if err := pause(ctx, window); err != nil {
		return before, err
	}
	after, err := b.redis.Stats(ctx)
	return after.Since(before), err
}

// calm waits until every task was tried once, and for a while after that.
func (b *bench) calm(ctx context.Context, rdb *redis.Client) error {
	for {
		n, err := rdb.LLen(ctx, "asynq:{default}:pending").Result()
		if err != nil {
			return err
		}
		if n == 0 {
			return pause(ctx, settled)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func scripts(s server.Stats) int64 { return s.Calls["evalsha"] + s.Calls["eval"] }

// commands also counts calls by scripts.
func commands(s server.Stats) int64 { return s.All() }

// exponent returns how fast a cost grows: 0 if it is constant, 1 if it doubles with the size.
func exponent(name string, goal float64, sizes []int, costs []float64) figure {
	first, last := slices.Min(sizes), slices.Max(sizes)
	growth := math.Log(max(costs[len(costs)-1], 1)/max(costs[0], 1)) / math.Log(float64(last)/float64(first))
	return one(name, goal, growth)
}
