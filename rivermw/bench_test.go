package rivermw_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

const (
	benchJobs   = 100 // of one key
	benchOthers = 500 // of a key each: with fewer, their time would be mostly that of the first snoozes
	benchWork   = 10 * time.Millisecond
)

// A load is a number of jobs that run together.
type load struct {
	hot, others int // jobs of one key, and of a key each
	clients     int
	slots       int // workers of each client
	waiting     int // how many of them may wait
	waker       bool
	cooldown    time.Duration
}

// A result says how long the jobs of a load took, and what they cost.
type result struct {
	hot, others time.Duration
	snoozes     int
	queries     int64
	commands    int64 // of Redis, with the calls of scripts
}

// BenchmarkOneKey runs 100 jobs of 10 ms that share a key, alone and next to 500 jobs with a key each. x/hot is their time as a
// multiple of the same work one after the other under the lock, without river. x/others is the time of the others, as a multiple of the
// same jobs alone.
func BenchmarkOneKey(b *testing.B) {
	for name, l := range map[string]load{
		"1 client":             {clients: 1, slots: 20, waiting: 4, waker: true, cooldown: 5 * time.Millisecond},
		"2 clients":            {clients: 2, slots: 10, waiting: 4, waker: true, cooldown: 5 * time.Millisecond},
		"FetchCooldown 100 ms": {clients: 1, slots: 20, waiting: 10, waker: true, cooldown: 100 * time.Millisecond},
		"without a Waker":      {clients: 1, slots: 20, waiting: 4, cooldown: 5 * time.Millisecond},
	} {
		b.Run(name, func(b *testing.B) {
			var serial, alone, others, mixed []result
			for b.Loop() {
				l := l
				serial = append(serial, result{hot: inTurn(b)})
				l.hot, l.others = benchJobs, 0
				alone = append(alone, l.run(b))
				l.hot, l.others = 0, benchOthers
				others = append(others, l.run(b))
				l.hot = benchJobs
				mixed = append(mixed, l.run(b))
			}
			hot := func(r result) float64 { return float64(r.hot) }
			rest := func(r result) float64 { return float64(r.others) }
			b.ReportMetric(median(alone, hot)/median(serial, hot), "x/hot-alone")
			b.ReportMetric(median(mixed, hot)/median(serial, hot), "x/hot-mixed")
			b.ReportMetric(median(mixed, rest)/median(others, rest), "x/others")
			b.ReportMetric(median(alone, func(r result) float64 { return float64(r.snoozes) / benchJobs }), "snoozes/job")
			queries := func(r result) float64 { return float64(r.queries) }
			free := median(others, queries) / benchOthers * benchJobs
			extra := median(alone, queries) - free // what jobs with free locks do not cost
			b.ReportMetric(extra/max(1, median(alone, func(r result) float64 { return float64(r.snoozes) })), "queries/snooze")
			b.ReportMetric(median(alone, func(r result) float64 { return float64(r.commands) / benchJobs }), "commands/job")
		})
	}
}

// inTurn measures the work of the jobs of one key without river.
func inTurn(b *testing.B) time.Duration {
	locks := newLocks(b, redistest.Redis(b))
	began := time.Now()
	for range benchJobs {
		hold := occupy(b, locks, "hot")
		time.Sleep(benchWork)
		release(b, hold)
	}
	return time.Since(began)
}

func median(results []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// run inserts the jobs, starts the clients, and waits until all jobs have run.
func (l load) run(b *testing.B) (r result) {
	d := newDatabase(b)
	defer d.pool.Close() // each run has connections of its own
	redis := redistest.Redis(b)
	rdb := redis.NewClient(b)
	commands := func() (n int64) {
		info := rdb.InfoMap(b.Context(), "stats").Item("Stats", "total_commands_processed")
		n, err := strconv.ParseInt(info, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	j := &journal{}
	var left sync.WaitGroup
	var mu sync.Mutex
	var began time.Time
	var clients []*river.Client[pgx.Tx]
	for range l.clients {
		opts := []rivermw.Option{rivermw.WithMaxWaiting(l.waiting)}
		if l.waker {
			waker := d.waker()
			defer waker.Close()
			opts = append(opts, rivermw.WithWaker(waker))
		}
		w := &worker{
			middleware: []rivertype.WorkerMiddleware{rivermw.WithLock(newLocks(b, redis), byCustomer, opts...)},
			do: func(_ context.Context, job *river.Job[invoiceArgs]) error {
				defer j.begin(job)()
				time.Sleep(benchWork)
				mu.Lock()
				defer mu.Unlock()
				if job.Args.Customer == "hot" {
					r.hot = time.Since(began)
				} else {
					r.others = time.Since(began)
				}
				left.Done()
				return nil
			},
		}
		clients = append(clients, d.client(w, func(c *river.Config) {
			c.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: l.slots}
			c.FetchCooldown = l.cooldown
		}))
	}
	var jobs []river.InsertManyParams
	for i := range max(l.hot, l.others) {
		if i < l.hot {
			jobs = append(jobs, river.InsertManyParams{Args: invoiceArgs{Customer: "hot"}})
		}
		if i < l.others {
			jobs = append(jobs, river.InsertManyParams{Args: invoiceArgs{Customer: strconv.Itoa(i)}})
		}
	}
	if _, err := clients[0].InsertMany(b.Context(), jobs); err != nil {
		b.Fatal(err)
	}
	left.Add(len(jobs))
	queries, sent := d.queries.Load(), commands()
	mu.Lock()
	began = time.Now()
	mu.Unlock()
	for _, c := range clients {
		if err := c.Start(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	left.Wait()
	r.queries, r.commands = d.queries.Load()-queries, commands()-sent
	for _, c := range clients {
		if err := c.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	j.check(b)
	r.snoozes = snoozed(b, clients[0], len(jobs))
	return r
}

// snoozed counts the snoozes of the jobs.
func snoozed(b *testing.B, client *river.Client[pgx.Tx], jobs int) (n int) {
	b.Helper()
	all, err := client.JobList(b.Context(), river.NewJobListParams().First(1000))
	if err != nil {
		b.Fatal(err)
	}
	if len(all.Jobs) != jobs {
		b.Errorf("there are %d jobs, want %d", len(all.Jobs), jobs)
	}
	for _, row := range all.Jobs {
		var m struct{ Snoozes int }
		if err := json.Unmarshal(row.Metadata, &m); err != nil {
			b.Fatal(err)
		}
		n += m.Snoozes
	}
	return n
}

// BenchmarkHandOver measures the time from a release in another process's Client until a snoozed job runs.
func BenchmarkHandOver(b *testing.B) {
	d := newDatabase(b)
	redis := redistest.Redis(b)
	locks, other := newLocks(b, redis), newLocks(b, redis)
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(d.waker()))
	client := d.start(d.client(w))
	var times []result
	for b.Loop() {
		hold := occupy(b, other, "7")
		await(b, client, insert(b, client, "7"), "snoozed", isSnoozed)
		released := time.Now()
		release(b, hold)
		receive(b, ran)
		times = append(times, result{hot: time.Since(released)})
	}
	b.ReportMetric(median(times, func(r result) float64 { return r.hot.Seconds() * 1000 }), "ms/hand-over")
}
