package rivermw_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// A childSpec describes a process that runs jobs, each until the test sends an order or the process is killed.
type childSpec struct {
	Redis, Database string
	Lease           time.Duration
}

// A childReport is what a child reports of a job.
type childReport struct {
	Job   int64
	Began bool
	Lost  bool // its context ended because the lock was lost
}

func (s childSpec) run(orders *json.Decoder, reports *json.Encoder) error {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis})
	defer rdb.Close()
	locks, err := lockmw.New(rdb, lockmw.WithLogger(quiet()), lockmw.WithLease(s.Lease))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	waker, err := rivermw.NewWaker(riverpgxv5.New(pool), pool.Begin)
	if err != nil {
		return err
	}
	defer waker.Close()
	finish := make(chan struct{})
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{
		middleware: []rivertype.WorkerMiddleware{rivermw.WithLock(locks, byCustomer, rivermw.WithWaker(waker), rivermw.WithSnooze(time.Second, 2*time.Second))},
		do: func(ctx context.Context, job *river.Job[invoiceArgs]) error {
			_ = reports.Encode(childReport{Job: job.ID, Began: true})
			select {
			case <-finish:
			case <-ctx.Done():
				_ = reports.Encode(childReport{Job: job.ID, Lost: errors.Is(context.Cause(ctx), lockmw.ErrLost)})
			}
			return ctx.Err()
		},
	})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 5}},
		Workers: workers, Logger: quiet(), FetchCooldown: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	var order struct{}
	_ = orders.Decode(&order) // or the end of the test
	close(finish)
	return client.StopAndCancel(ctx)
}

// startChild starts a process that runs jobs.
func startChild(t *testing.T, d *database, redis *redistest.Server, lease time.Duration) *redistest.Child {
	t.Helper()
	return redistest.StartChild(t, childSpec{redis.Addr(), d.pool.Config().ConnString(), lease})
}

// nextReport returns the next report of a child.
func nextReport(t *testing.T, c *redistest.Child) (r childReport) {
	t.Helper()
	if err := json.Unmarshal(receive(t, c.Reports()), &r); err != nil {
		t.Fatal(err)
	}
	return r
}
