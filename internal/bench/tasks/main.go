// Tasks measures what becomes of asynq tasks that want one lock, and of those beside them, on a redis-server that it
// starts itself. Its figures are ratios to a measurement without locks in the same run.
//
//	go run ./tasks [-rounds n] [-work list] [-locks list]
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/server"
)

func main() {
	crew.Main(work)
	rounds := flag.Int("rounds", 3, "how often to measure each")
	only := flag.String("work", "", "`list` of workloads")
	lock := flag.String("lock", "default", "how tasks lock: default or wait")
	flag.Parse()
	if err := run(context.Background(), *rounds, *only, *lock); err != nil {
		fmt.Fprintln(os.Stderr, "tasks:", err)
		os.Exit(1)
	}
}

// A load is tasks that are enqueued before the servers begin.
type load struct {
	hot, others   int // tasks of the busy keys, and tasks with a key each
	keys          int // busy keys
	work          time.Duration
	first, behind int // other tasks before and behind the hot ones
}

type outcome struct {
	hot, others time.Duration // from the start to the end of the last one
	empty       int64
	ran         int64
}

type bench struct {
	redis *server.Server
	dir   string
	n     int
}

// measure processes a load. With limit, it is stopped then.
func (b *bench) measure(ctx context.Context, l load, lock string, limit time.Duration, workers ...int) (outcome, error) {
	var out outcome
	if err := b.redis.Clean(ctx); err != nil {
		return out, err
	}
	b.n++
	page := filepath.Join(b.dir, fmt.Sprint("page", b.n))
	if err := exclusion.Create(page, max(l.keys, 1)); err != nil {
		return out, err
	}
	opt := asynq.RedisClientOpt{Addr: b.redis.Addr}
	inspector, client := asynq.NewInspector(opt), asynq.NewClient(opt)
	defer inspector.Close()
	defer client.Close()
	if err := l.enqueue(client); err != nil {
		return out, err
	}
	if err := inspector.PauseQueue("default"); err != nil {
		return out, err
	}
	var jobs []job
	for _, n := range workers {
		jobs = append(jobs, job{Addr: b.redis.Addr, Page: page, Workers: n, Lock: lock})
	}
	c, err := crew.Start(ctx, 0, jobs...)
	if err != nil {
		return out, err
	}
	defer c.Close()
	for {
		if servers, err := inspector.Servers(); err == nil && len(servers) == len(jobs) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	start := time.Now()
	if err := inspector.UnpauseQueue("default"); err != nil {
		return out, err
	}
	total := l.hot + l.others + l.first + l.behind
	for {
		time.Sleep(20 * time.Millisecond)
		hot, others, empty, err := tell(c)
		if err != nil {
			return out, err
		}
		if lock == "none" {
			empty = 0
		}
		out = outcome{
			hot: time.Unix(0, hot.Last).Sub(start), others: time.Unix(0, others.Last).Sub(start),
			empty: empty, ran: hot.Ran + others.Ran,
		}
		if int(hot.Ran+others.Ran) >= total {
			break
		}
		if took := time.Since(start); took > limit {
			if limit > 30*time.Second {
				return out, fmt.Errorf("only %d of %d tasks ran within %v", out.ran, total, took)
			}
			break
		}
	}
	if err := c.Send("end"); err != nil {
		return out, err
	}
	if err := c.Expect("end"); err != nil {
		return out, err
	}
	c.Wait(15 * time.Second)
	return out, nil
}

func tell(c *crew.Crew) (hot, others tally, empty int64, err error) {
	if err := c.Send("tell"); err != nil {
		return hot, others, 0, err
	}
	for _, m := range c.Members() {
		var r report
		if err := m.Expect("tell", &r); err != nil {
			return hot, others, 0, err
		}
		if r.Violations > 0 {
			return hot, others, 0, errors.New("two tasks of one key ran at the same time")
		}
		for _, p := range []struct{ sum, one *tally }{{&hot, &r.Hot}, {&others, &r.Others}} {
			p.sum.Ran += p.one.Ran
			p.sum.Last = max(p.sum.Last, p.one.Last)
			empty += p.one.Empty
		}
	}
	return hot, others, empty, nil
}

// enqueue enqueues the tasks: those first, then the busy keys' and others mixed, then those behind.
func (l load) enqueue(client *asynq.Client) error {
	var all []payload
	other := func() {
		all = append(all, payload{Key: fmt.Sprint("own", len(all)), Cell: -1, Work: l.work})
	}
	for range l.first {
		other()
	}
	for i := range l.hot {
		all = append(all, payload{Key: fmt.Sprint("hot", i%l.keys), Cell: i % l.keys, Work: l.work, Hot: true})
		for n := l.others * i / l.hot; n < l.others*(i+1)/l.hot; n++ {
			other()
		}
	}
	if l.hot == 0 {
		for range l.others {
			other()
		}
	}
	for range l.behind {
		other()
	}
	for _, p := range all {
		text := fmt.Sprintf(`{"Key":%q,"Cell":%d,"Work":%d,"Hot":%t}`, p.Key, p.Cell, p.Work, p.Hot)
		if _, err := client.Enqueue(asynq.NewTask(typename, []byte(text))); err != nil {
			return err
		}
	}
	return nil
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

func run(ctx context.Context, rounds int, only, lock string) error {
	redis, err := server.Start(ctx)
	if err != nil {
		return err
	}
	defer redis.Close()
	dir, err := os.MkdirTemp("", "lockmw-tasks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{redis: redis, dir: dir}
	wants := func(name string) bool { return only == "" || slices.Contains(strings.Split(only, ","), name) }
	const patience = 3 * time.Minute
	ms := time.Millisecond
	for _, crewOf := range []struct {
		name    string
		workers []int
	}{{"1x8", []int{8}}, {"2x4", []int{4, 4}}} {
		if wants("hot") {
			var ratio, requeues []float64
			for range rounds {
				one := load{hot: 100, keys: 1, work: 10 * ms}
				serial, err := b.measure(ctx, one, "none", patience, 1)
				if err != nil {
					return err
				}
				got, err := b.measure(ctx, one, lock, patience, crewOf.workers...)
				if err != nil {
					return err
				}
				ratio = append(ratio, got.hot.Seconds()/serial.hot.Seconds())
				requeues = append(requeues, float64(got.empty)/100)
			}
			fmt.Printf("hot %s: %.2f x serial %.2f, %.2f attempts without the lock for each task\n", crewOf.name, median(ratio), ratio, median(requeues))
		}
		if wants("beside") {
			var hot, others, requeues []float64
			for range rounds {
				serial, err := b.measure(ctx, load{hot: 100, keys: 1, work: 10 * ms}, "none", patience, 1)
				if err != nil {
					return err
				}
				alone, err := b.measure(ctx, load{others: 400, work: 10 * ms}, lock, patience, crewOf.workers...)
				if err != nil {
					return err
				}
				got, err := b.measure(ctx, load{hot: 100, keys: 1, others: 400, work: 10 * ms}, lock, patience, crewOf.workers...)
				if err != nil {
					return err
				}
				hot = append(hot, got.hot.Seconds()/serial.hot.Seconds())
				others = append(others, got.others.Seconds()/alone.others.Seconds())
				requeues = append(requeues, float64(got.empty)/100)
			}
			fmt.Printf("beside %s: hot %.2f x serial %.2f, others %.2f x alone %.2f, %.2f empty attempts\n", crewOf.name, median(hot), hot, median(others), others, median(requeues))
		}
		if wants("between") {
			got, err := b.measure(ctx, load{hot: 100, keys: 1, work: 10 * ms, first: 3000, behind: 3000}, lock, patience, crewOf.workers...)
			if err != nil {
				return err
			}
			alone, err := b.measure(ctx, load{others: 6000, work: 10 * ms}, lock, patience, crewOf.workers...)
			if err != nil {
				return err
			}
			fmt.Printf("between %s: hot done after %v, others after %v (alone %v), %d empty\n", crewOf.name, got.hot, got.others, alone.others, got.empty)
		}
		if wants("flood") {
			got, err := b.measure(ctx, load{hot: 10_000, keys: 1, work: 10 * ms}, lock, 20*time.Second, crewOf.workers...)
			if err != nil {
				return err
			}
			fmt.Printf("flood %s: in 20 s %d ran, %d empty attempts\n", crewOf.name, got.ran, got.empty)
		}
		for _, w := range []struct {
			name string
			load load
		}{
			{"keys100", load{hot: 10_000, keys: 100, work: 2 * ms}},
			{"nothing", load{others: 10_000}},
			{"nothing100", load{hot: 10_000, keys: 100}},
			{"short", load{hot: 500, keys: 1, work: 2 * ms}},
		} {
			if !wants(w.name) {
				continue
			}
			var ratio, empty []float64
			for range rounds {
				how := crewOf.workers
				if w.name == "short" {
					how = []int{1}
				}
				none, err := b.measure(ctx, w.load, "none", patience, how...)
				if err != nil && w.load.keys == 0 {
					return err
				}
				got, err := b.measure(ctx, w.load, lock, patience, crewOf.workers...)
				if err != nil {
					return err
				}
				ratio = append(ratio, max(got.hot, got.others).Seconds()/max(none.hot, none.others).Seconds())
				empty = append(empty, float64(got.empty)/float64(w.load.hot+w.load.others))
			}
			fmt.Printf("%s %s: %.2f x without locks %.2f, %.2f empty attempts\n", w.name, crewOf.name, median(ratio), ratio, median(empty))
		}
	}
	return nil
}
