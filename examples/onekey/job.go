package main

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite" // the driver "sqlite", which needs no C compiler

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// A reprice is the args of a job.
type reprice struct {
	Item string `json:"item"`
}

// Kind implements river.JobArgs.
func (reprice) Kind() string { return "reprice" }

// A repricer is the river side: a job sets the price of an item. A job whose item is busy waits in its worker, and is snoozed after
// a while.
type repricer struct {
	river.WorkerDefaults[reprice]

	scene *scene
	trace *rivermw.Tracing
	lock  rivertype.WorkerMiddleware
}

// Middleware implements river.Worker. The span of the job covers the wait for its lock.
func (r *repricer) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return []rivertype.WorkerMiddleware{r.trace, r.lock}
}

// Work implements river.Worker.
func (r *repricer) Work(ctx context.Context, job *river.Job[reprice]) error {
	r.scene.work(ctx, "job", "prices", job.Args.Item)
	return nil
}

// newRepricer returns the worker with its lock. A Waker wakes snoozed jobs when their item is free.
func (s *scene) newRepricer(locks lockmw.Locker, waker *rivermw.Waker, opts ...rivermw.Option) *repricer {
	byItem := rivermw.By("item", rivermw.Args(func(a reprice) string { return a.Item }))
	opts = append([]rivermw.Option{rivermw.WithWaker(waker), lockmw.WithWait(10 * time.Second)}, opts...)
	return &repricer{scene: s, trace: rivermw.Trace(s.tracer), lock: rivermw.WithLock(locks, byItem, opts...)}
}

// openJobs starts a client of river. Its jobs are in SQLite, so that this program needs no PostgreSQL; with PostgreSQL only the driver
// and begin differ. The function that openJobs returns inserts a job.
func (s *scene) openJobs(ctx context.Context, locks lockmw.Locker, opts ...rivermw.Option) (repriceItem func(ctx context.Context, item string) error, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	s.atEnd(db.Close)
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	driver := riversqlite.New(db)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	begin := func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }
	waker, err := rivermw.NewWaker(driver, begin)
	if err != nil {
		return nil, err
	}
	s.atEnd(func() error { waker.Close(); return nil })
	worker, workers := s.newRepricer(locks, waker, opts...), river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(driver, &river.Config{
		FetchPollInterval: 100 * time.Millisecond, // SQLite sends no notifications
		Logger:            slog.New(slog.DiscardHandler),
		Plugins:           []rivertype.Plugin{worker.trace}, // carries the trace from the insert to the job
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers:           workers,
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	s.atEnd(func() error { return client.Stop(context.WithoutCancel(ctx)) })
	return func(ctx context.Context, item string) error {
		_, err := client.Insert(ctx, reprice{Item: item}, nil)
		return err
	}, nil
}
