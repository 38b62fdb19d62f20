package rivermw_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// This file compiles the code of docs/river.md.

type InvoiceArgs struct {
	Customer string `json:"customer"`
}

func (InvoiceArgs) Kind() string { return "send_invoice" }

func sendInvoice(context.Context, InvoiceArgs) error { return nil }

type InvoiceWorker struct {
	river.WorkerDefaults[InvoiceArgs]

	lock rivertype.WorkerMiddleware
}

func (w *InvoiceWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return []rivertype.WorkerMiddleware{w.lock}
}

func (w *InvoiceWorker) Work(ctx context.Context, job *river.Job[InvoiceArgs]) error {
	return sendInvoice(ctx, job.Args) // no other job of this customer runs
}

func firstWorker(ctx context.Context, locks *lockmw.Client, pool *pgxpool.Pool) error {
	waker, err := rivermw.NewWaker(riverpgxv5.New(pool), pool.Begin)
	if err != nil {
		return err
	}
	defer waker.Close() // after the client has stopped

	byCustomer := rivermw.By("customer", rivermw.Args(func(a InvoiceArgs) string { return a.Customer }))
	workers := river.NewWorkers()
	river.AddWorker(workers, &InvoiceWorker{
		lock: rivermw.WithLock(locks, byCustomer, rivermw.WithWaker(waker), rivermw.WithMaxWaiting(10)),
	})
	client, err := traced(pool, workers)
	if err != nil {
		return err
	}
	return client.Start(ctx)
}

func keptTurn(locks *lockmw.Client) rivertype.WorkerMiddleware {
	fair := fairlock.New(locks)
	lock := rivermw.WithLock(fair, byCustomer,
		rivermw.WithSnooze(time.Second, 5*time.Second),
		rivermw.WithPlaceKept(time.Minute), // longer than the job takes to come back
	)
	return lock
}

type TracedWorker struct {
	InvoiceWorker

	trace *rivermw.Tracing
}

func (w *TracedWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return []rivertype.WorkerMiddleware{w.trace, w.lock}
}

func traced(pool *pgxpool.Pool, workers *river.Workers) (*river.Client[pgx.Tx], error) {
	trace := rivermw.Trace(nil)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Plugins: []rivertype.Plugin{trace},
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}},
		Workers: workers,
	})
	return client, err
}

var (
	_ = firstWorker
	_ = keptTurn
)
