package rivermw_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

// Only the snooze that the Waker knows of is ended. JobRetry alone would also run completed and cancelled jobs again.
func TestAWakerLeavesOtherJobsAlone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	waker := d.waker()
	began, finish := make(chan *rivertype.JobRow, 10), make(chan error, 10)
	client := d.start(d.client(&worker{do: func(_ context.Context, job *river.Job[invoiceArgs]) error {
		began <- job.JobRow
		return <-finish
	}}))
	later := river.JobSnooze(time.Hour)
	for name, tt := range map[string]struct {
		results []error // of the attempts after the one that the Waker knows
		then    func(id int64) error
		state   rivertype.JobState
		woken   bool
	}{
		"snoozed":                  {[]error{later}, nil, rivertype.JobStateAvailable, true},
		"snoozed for a short time": {[]error{river.JobSnooze(4 * time.Second)}, nil, rivertype.JobStateAvailable, true},
		"completed":                {[]error{nil}, nil, rivertype.JobStateCompleted, false},
		"cancelled by the worker":  {[]error{river.JobCancel(errors.New("no"))}, nil, rivertype.JobStateCancelled, false},
		"cancelled while snoozed": {[]error{later}, func(id int64) error {
			_, err := client.JobCancel(context.Background(), id)
			return err
		}, rivertype.JobStateCancelled, false},
		"snoozed again by the worker": {[]error{river.JobSnooze(0), later}, nil, rivertype.JobStateScheduled, false},
	} {
		id := insert(t, client, name)
		var known *rivertype.JobRow
		for i, result := range tt.results {
			row := receive(t, began)
			if i == 0 {
				known = row
			}
			finish <- result
		}
		await(t, client, id, "finished", func(row *rivertype.JobRow) bool {
			return row.State != rivertype.JobStateRunning && (len(tt.results) == 1 || strings.Contains(string(row.Metadata), `"snoozes": 2`))
		})
		if tt.then != nil {
			if err := tt.then(id); err != nil {
				t.Fatal(err)
			}
		}
		if again, err := rivermw.Wake(t.Context(), waker, known); again || err != nil {
			t.Errorf("%s: again %t, %v", name, again, err)
		}
		if tt.woken {
			receive(t, began)
			finish <- nil
			awaitState(t, client, id, rivertype.JobStateCompleted)
			continue
		}
		if row := awaitState(t, client, id, tt.state); row.State == rivertype.JobStateScheduled && time.Until(row.ScheduledAt) < time.Minute {
			t.Errorf("%s: it was woken", name)
		}
	}
	if len(began) > 0 {
		t.Error("another job ran")
	}
}

func TestAWakerTriesARunningJobAgain(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	began, finish := make(chan *rivertype.JobRow, 1), make(chan struct{})
	client := d.start(d.client(&worker{do: func(_ context.Context, job *river.Job[invoiceArgs]) error {
		began <- job.JobRow
		<-finish
		return nil
	}}))
	insert(t, client, "7")
	again, err := rivermw.Wake(t.Context(), d.waker(), receive(t, began))
	close(finish)
	if !again || err != nil {
		t.Errorf("again %t, %v", again, err)
	}
	gone := &rivertype.JobRow{ID: 1 << 40}
	if again, err := rivermw.Wake(t.Context(), d.waker(), gone); again || err != nil {
		t.Errorf("a deleted job: again %t, %v", again, err)
	}
}

func TestAWakerLeavesNoJobBehind(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	waker := d.waker()
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(waker))
	client := d.start(d.client(w))
	id := insert(t, client, "7")
	await(t, client, id, "snoozed", isSnoozed)
	release(t, hold)
	receive(t, ran)
	awaitState(t, client, id, rivertype.JobStateCompleted)
	list, err := client.JobList(t.Context(), nil)
	if err != nil || len(list.Jobs) != 1 {
		t.Errorf("there are %d jobs, want 1 (%v)", len(list.Jobs), err)
	}
	if n := rivermw.Parked(waker); n != 0 {
		t.Errorf("%d jobs are remembered", n)
	}
}

func TestAWakerWorksWithDatabaseSQL(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	db := stdlib.OpenDBFromPool(d.pool)
	t.Cleanup(func() { _ = db.Close() })
	waker, err := rivermw.NewWaker(riverdatabasesql.New(db), func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waker.Close)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(waker))
	client := d.start(d.client(w))
	await(t, client, insert(t, client, "7"), "snoozed", isSnoozed)
	release(t, hold)
	receive(t, ran)
}

// A lateTx tells its Waker of the commit only after a job has begun.
type lateTx struct {
	pgx.Tx

	begun <-chan struct{}
}

func (tx lateTx) Commit(ctx context.Context) error {
	err := tx.Tx.Commit(ctx)
	select {
	case <-tx.begun:
	case <-ctx.Done():
	}
	return err
}

func TestAJobThatBeginsBeforeItsWakerKnowsIsNotTakenForOneOnItsWay(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	begun := make(chan struct{}, 2)
	waker, err := rivermw.NewWaker(riverpgxv5.New(d.pool), func(ctx context.Context) (pgx.Tx, error) {
		tx, err := d.pool.Begin(ctx)
		return lateTx{tx, begun}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waker.Close)
	rivermw.SetOnTheWay(waker, time.Hour) // no other job would be woken
	locks := lockmw.NewLocal()
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, rivermw.WithMaxWaiting(0), rivermw.WithWaker(waker), rivermw.WithSnooze(time.Hour, time.Hour))
	do := w.do
	w.do = func(ctx context.Context, job *river.Job[invoiceArgs]) error {
		begun <- struct{}{}
		return do(ctx, job)
	}
	client := d.start(d.client(w))
	for range 2 {
		await(t, client, insert(t, client, "7"), "snoozed", isSnoozed)
	}
	release(t, hold)
	receive(t, ran)
	receive(t, ran)
}

func TestAWakerThatFailsLeavesJobsToTheClock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	failed := make(chan struct{}, 100)
	waker, err := rivermw.NewWaker(riverpgxv5.New(d.pool), func(context.Context) (pgx.Tx, error) {
		failed <- struct{}{}
		return nil, errors.New("no connection")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waker.Close)
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(waker), rivermw.WithSnooze(time.Second, time.Second))
	client := d.start(d.client(w))
	id := insert(t, client, "7")
	await(t, client, id, "snoozed", isSnoozed)
	release(t, hold)
	receive(t, failed)
	receive(t, ran)
}

func TestAClosedWakerLeavesJobsToTheClock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	waker := d.waker()
	waker.Close()
	waker.Close()
	locks := newLocks(t, redistest.Mini(t))
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(waker))
	client := d.start(d.client(w))
	row := await(t, client, insert(t, client, "7"), "snoozed", isSnoozed)
	if wait := time.Until(row.ScheduledAt); wait > 3*time.Second {
		t.Errorf("it comes back after %v, want 1 to 2 s", wait)
	}
	release(t, hold)
	receive(t, ran)
}

// The search path of the connection does not have the schema.
func TestAWakerFindsTheTablesInItsSchema(t *testing.T) {
	t.Parallel()
	const schema = "apart"
	server, _ := shared.get(t)
	d := openDatabase(t, server, schema)
	pool, err := pgxpool.New(t.Context(), url(server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d.pool = pool
	waker, err := rivermw.NewWaker(riverpgxv5.New(pool), pool.Begin, rivermw.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(waker.Close)
	locks := lockmw.NewLocal()
	hold := occupy(t, locks, "7")
	w, ran := locked(locks, lockmw.WithWait(0), rivermw.WithWaker(waker), rivermw.WithSnooze(time.Hour, time.Hour))
	client := d.start(d.client(w, func(c *river.Config) { c.Schema = schema }))
	id := insert(t, client, "7")
	await(t, client, id, "snoozed", isSnoozed)
	release(t, hold)
	receive(t, ran)
	awaitState(t, client, id, rivertype.JobStateCompleted)
}
