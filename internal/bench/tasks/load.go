package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/server"
)

// A load is tasks that are enqueued before the servers begin.
type load struct {
	hot, others   int // tasks of the busy keys, and tasks with a key each
	keys          int // busy keys
	work          time.Duration
	first, behind int // other tasks before and after the hot ones
}

// An outcome is the result of a load.
type outcome struct {
	hot, others time.Duration // from the start to the end of the last task
	empty       int64         // attempts without the lock
	scripts     int64         // scripts that asynqmw ran in the queue
}

// A bench measures with a number of workers in each process.
type bench struct {
	redis   *server.Server
	dir     string
	lock    string
	workers []int
	quick   bool // without the largest sizes
	n       int
}

// patience is how long a load may take.
const patience = 3 * time.Minute

// measure processes a load.
func (b *bench) measure(ctx context.Context, l load, lock string, workers ...int) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.redis.Clean(ctx); err != nil {
		return outcome{}, err
	}
	b.n++
	page := filepath.Join(b.dir, fmt.Sprint(b.n, "-", len(workers)))
	if err := exclusion.Create(page, max(l.keys, 1)); err != nil {
		return outcome{}, err
	}
	opt := asynq.RedisClientOpt{Addr: b.redis.Addr}
	inspector, client := asynq.NewInspector(opt), asynq.NewClient(opt)
	defer inspector.Close()
	defer client.Close()
	if err := l.enqueue(client); err != nil {
		return outcome{}, err
	}
	if err := inspector.PauseQueue("default"); err != nil {
		return outcome{}, err
	}
	var jobs []job
	for _, n := range workers {
		jobs = append(jobs, job{Addr: b.redis.Addr, Page: page, Workers: n, Lock: lock})
	}
	c, err := crew.Start(ctx, 0, jobs...)
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	if err := c.Expect("ready"); err != nil {
		return outcome{}, err
	}
	start := time.Now()
	if err := inspector.UnpauseQueue("default"); err != nil {
		return outcome{}, err
	}
	done, err := await(c, l)
	if err != nil {
		return outcome{}, err
	}
	if err := c.Send("end"); err != nil {
		return outcome{}, err
	}
	c.Wait(15 * time.Second)
	return outcome{
		hot: time.Unix(0, done.Hot.Last).Sub(start), others: time.Unix(0, done.Others.Last).Sub(start),
		empty: done.Hot.Empty + done.Others.Empty, scripts: done.Scripts,
	}, nil
}

// await waits until all tasks have run.
func await(c *crew.Crew, l load) (all report, err error) {
	total := int64(l.hot + l.others + l.first + l.behind)
	for tick := time.Tick(20 * time.Millisecond); ; <-tick {
		if all, err = tell(c); err != nil || all.Hot.Ran+all.Others.Ran >= total {
			return all, err
		}
	}
}

// tell asks the workers for their tallies.
func tell(c *crew.Crew) (all report, err error) {
	if err := c.Send("tell"); err != nil {
		return all, err
	}
	for _, m := range c.Members() {
		var r report
		if err := m.Expect("tell", &r); err != nil {
			return all, err
		}
		if r.Violations > 0 {
			return all, errors.New("two tasks of one key ran at the same time")
		}
		all.Hot.add(r.Hot)
		all.Others.add(r.Others)
		all.Scripts += r.Scripts
	}
	return all, nil
}

// payloads returns the tasks in the order in which they are enqueued: others first, then tasks of the busy keys mixed with
// others, then others again.
func (l load) payloads() []payload {
	var all []payload
	others := func(n int) {
		for range n {
			all = append(all, payload{Key: fmt.Sprint("own", len(all)), Cell: -1, Work: l.work})
		}
	}
	others(l.first)
	for i := range l.hot {
		all = append(all, payload{Key: fmt.Sprint("hot", i%l.keys), Cell: i % l.keys, Work: l.work, Hot: true})
		others(l.others*(i+1)/l.hot - l.others*i/l.hot)
	}
	if l.hot == 0 {
		others(l.others)
	}
	others(l.behind)
	return all
}

func (l load) enqueue(client *asynq.Client) error {
	for _, p := range l.payloads() {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if _, err := client.Enqueue(asynq.NewTask(typename, text)); err != nil {
			return err
		}
	}
	return nil
}

// median returns the middle one.
func median[T cmp.Ordered](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
