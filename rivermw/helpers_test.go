package rivermw_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/test/dbserver"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// patience is how long a test waits for what should happen within seconds.
const patience = time.Minute

// invoiceArgs are the args of the jobs that tests lock by customer.
type invoiceArgs struct {
	Customer string `json:"customer"`
	N        int    `json:"n"`
}

func (invoiceArgs) Kind() string { return "invoice" }

var byCustomer = rivermw.By("customer", rivermw.Args(func(a invoiceArgs) string { return a.Customer }))

// A worker runs jobs with a middleware.
type worker struct {
	river.WorkerDefaults[invoiceArgs]

	middleware []rivertype.WorkerMiddleware
	timeout    time.Duration
	do         func(context.Context, *river.Job[invoiceArgs]) error
}

func (w *worker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware { return w.middleware }
func (w *worker) Timeout(*river.Job[invoiceArgs]) time.Duration             { return w.timeout }
func (w *worker) NextRetry(*river.Job[invoiceArgs]) time.Time {
	return time.Now().Add(10 * time.Millisecond)
}
func (w *worker) Work(ctx context.Context, job *river.Job[invoiceArgs]) error {
	return w.do(ctx, job)
}

// A database is a PostgreSQL server with river's tables.
type database struct {
	testing.TB
	server  *dbserver.Server
	pool    *pgxpool.Pool
	queries *queryCount
}

// A queryCount counts the statements of a pool.
type queryCount struct{ atomic.Int64 }

func (q *queryCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.Add(1)
	return ctx
}

func (q *queryCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func url(addr string) string { return "postgres://admin@" + addr + "/postgres" }

func startServer(t testing.TB) *dbserver.Server {
	return dbserver.Postgres(t, func(ctx context.Context, addr string) error {
		conn, err := pgx.Connect(ctx, url(addr))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// newDatabase returns river's tables in a schema of their own, on the server that tests share.
func newDatabase(t testing.TB) *database {
	t.Helper()
	server, n := shared.get(t)
	return openDatabase(t, server, fmt.Sprintf("test%d", n))
}

// openDatabase makes river's tables in a schema.
func openDatabase(t testing.TB, server *dbserver.Server, schema string) *database {
	t.Helper()
	config, err := pgxpool.ParseConfig(url(server.Addr()) + "?search_path=" + schema)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 10
	queries := &queryCount{}
	config.ConnConfig.Tracer = queries
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
		t.Fatal(err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	return &database{t, server, pool, queries}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// client returns a river client that tests change with edit. It is stopped when the test ends.
func (d *database) client(w *worker, edit ...func(*river.Config)) *river.Client[pgx.Tx] {
	d.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	config := &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers:           workers,
		Logger:            quiet(),
		FetchCooldown:     10 * time.Millisecond,
		FetchPollInterval: time.Second,
	}
	for _, f := range edit {
		f(config)
	}
	client, err := river.NewClient(riverpgxv5.New(d.pool), config)
	if err != nil {
		d.Fatal(err)
	}
	return client
}

// start starts a client. It is stopped when the test ends.
func (d *database) start(client *river.Client[pgx.Tx]) *river.Client[pgx.Tx] {
	d.Helper()
	if err := client.Start(context.Background()); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := client.StopAndCancel(ctx); err != nil {
			d.Errorf("stopping a client: %v", err)
		}
	})
	return client
}

// waker returns a Waker that is closed after the clients that are started later.
func (d *database) waker() *rivermw.Waker {
	d.Helper()
	w, err := rivermw.NewWaker(riverpgxv5.New(d.pool), d.pool.Begin)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(w.Close)
	return w
}

func insert(t testing.TB, client *river.Client[pgx.Tx], customer string, edit ...func(*river.InsertOpts)) int64 {
	t.Helper()
	opts := &river.InsertOpts{}
	for _, f := range edit {
		f(opts)
	}
	res, err := client.Insert(t.Context(), invoiceArgs{Customer: customer}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return res.Job.ID
}

func attempts(n int) func(*river.InsertOpts) {
	return func(o *river.InsertOpts) { o.MaxAttempts = n }
}

// await waits until a job fulfils a condition, and returns it.
func await(t testing.TB, client *river.Client[pgx.Tx], id int64, what string, is func(*rivertype.JobRow) bool) *rivertype.JobRow {
	t.Helper()
	var row *rivertype.JobRow
	eventually(t, func() error {
		var err error
		if row, err = client.JobGet(t.Context(), id); err != nil {
			return err
		}
		if !is(row) {
			return fmt.Errorf("job %d is not %s: %s, attempt %d of %d, errors %v, metadata %s", id, what, row.State, row.Attempt, row.MaxAttempts, row.Errors, row.Metadata)
		}
		return nil
	})
	return row
}

func inState(states ...rivertype.JobState) func(*rivertype.JobRow) bool {
	return func(row *rivertype.JobRow) bool { return slices.Contains(states, row.State) }
}

func awaitState(t testing.TB, client *river.Client[pgx.Tx], id int64, state rivertype.JobState) *rivertype.JobRow {
	t.Helper()
	return await(t, client, id, string(state), inState(state))
}

// isSnoozed reports whether a job was snoozed and waits for its next attempt.
func isSnoozed(row *rivertype.JobRow) bool {
	return inState(rivertype.JobStateScheduled, rivertype.JobStateAvailable)(row) && len(row.AttemptedBy) > 0
}

// isSnoozedTimes reports whether a job was snoozed that often in a row, or more often: the next snooze may come before a test looks.
func isSnoozedTimes(n int) func(*rivertype.JobRow) bool {
	return func(row *rivertype.JobRow) bool { return rivermw.SnoozesOf(row) >= n }
}

// eventually calls check until it returns nil.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal(err)
		}
	}
}

// receive returns the next value of a channel.
func receive[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing is received")
	}
	return v
}

// newLocks returns a Client for a server.
func newLocks(t testing.TB, s *redistest.Server, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	locks, err := lockmw.New(s.NewClient(t), append([]lockmw.ClientOption{lockmw.WithLogger(quiet())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// occupy takes the lock of a customer. The test releases it.
func occupy(t testing.TB, locks lockmw.Locker, customer string) *lockmw.Hold {
	t.Helper()
	_, hold, err := locks.Lock(context.Background(), lockmw.Key("customer", customer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Unlock() })
	return hold
}

func release(t testing.TB, hold *lockmw.Hold) {
	t.Helper()
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// A journal notes which jobs run, and reports jobs of one customer that overlap.
type journal struct {
	mu      sync.Mutex
	running map[string]int64
	ran     []int64
	overlap error
}

// begin notes that a job runs until end is called.
func (j *journal) begin(job *river.Job[invoiceArgs]) (end func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running == nil {
		j.running = make(map[string]int64)
	}
	if other := j.running[job.Args.Customer]; other != 0 {
		j.overlap = errors.Join(j.overlap, fmt.Errorf("jobs %d and %d overlap", other, job.ID))
	}
	j.running[job.Args.Customer] = job.ID
	j.ran = append(j.ran, job.ID)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.running, job.Args.Customer)
	}
}

// check reports overlaps, and returns the jobs in the order in which they began.
func (j *journal) check(t testing.TB) []int64 {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.overlap != nil {
		t.Error(j.overlap)
	}
	return slices.Clone(j.ran)
}
