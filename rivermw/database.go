package rivermw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// A WakerOption configures NewWaker.
type WakerOption func(*river.Config)

// WithSchema sets the schema of river's tables, like Schema in river.Config. Default: the search path of the connection.
func WithSchema(name string) WakerOption { return func(c *river.Config) { c.Schema = name } }

// A parkedJob is a snoozed job. Its state, attempt and number of snoozes identify this snooze: a job that ran again, or was
// cancelled or retried meanwhile, is left alone.
type parkedJob struct {
	id      int64
	attempt int // before the attempt that is snoozed
	snoozes int // before this snooze, by river's count

	notBefore time.Time // when to try to wake it; river stores a snooze up to a quarter of a second later
}

func newParkedJob(job *rivertype.JobRow) parkedJob {
	return parkedJob{id: job.ID, attempt: job.Attempt - 1, snoozes: snoozesOf(job).Snoozes}
}

// isStored reports whether the job is in the state that the snooze has put it into.
func (j parkedJob) isStored(row *rivertype.JobRow) bool {
	waits := row.State == rivertype.JobStateScheduled || row.State == rivertype.JobStateAvailable
	return waits && row.Attempt == j.attempt && snoozesOf(row).Snoozes == j.snoozes+1
}

// isComing reports whether river has not stored the snooze yet.
func (j parkedJob) isComing(row *rivertype.JobRow) bool {
	return row.State == rivertype.JobStateRunning && row.Attempt == j.attempt+1 && snoozesOf(row).Snoozes == j.snoozes
}

// A database wakes jobs through the public methods of a client.
type database[TTx any] struct {
	client *river.Client[TTx]
	begin  func(context.Context) (TTx, error)
}

// wakeTimeout limits a transaction that wakes jobs.
const wakeTimeout = 10 * time.Second

// wake makes snoozed jobs available in one transaction. It returns the jobs whose snooze river has not stored yet.
func (d *database[TTx]) wake(ctx context.Context, jobs []parkedJob) (again []parkedJob, err error) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	tx, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(ctx, tx, err == nil)) }()
	queues := make(map[string]bool)
	for _, j := range jobs {
		row, err := d.client.JobUpdateTx(ctx, tx, j.id, nil) // locks the row, unlike JobGetTx, so that nobody cancels the job meanwhile
		switch {
		case errors.Is(err, rivertype.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case j.isComing(row):
			again = append(again, j)
			continue
		case !j.isStored(row):
			continue
		}
		if _, err := d.client.JobRetryTx(ctx, tx, j.id); err != nil {
			return nil, err
		}
		queues[row.Queue] = true
	}
	for queue := range queues {
		if err := d.announce(ctx, tx, queue); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// announcement is a job that no worker sees.
type announcement struct{}

func (announcement) Kind() string { return "lockmw_wake" }

// announce makes the clients of a queue fetch jobs when the transaction is committed. river announces inserted jobs but not retried
// ones, so it inserts a job and deletes it again.
func (d *database[TTx]) announce(ctx context.Context, tx TTx, queue string) error {
	inserted, err := d.client.InsertTx(ctx, tx, announcement{}, &river.InsertOpts{Queue: queue})
	if err != nil {
		return err
	}
	_, err = d.client.JobDeleteTx(ctx, tx, inserted.Job.ID)
	return err
}

// end commits a transaction, or rolls it back.
func end(ctx context.Context, tx any, commit bool) error {
	switch tx := tx.(type) {
	case interface { // pgx.Tx
		Commit(ctx context.Context) error
		Rollback(ctx context.Context) error
	}:
		if commit {
			return tx.Commit(ctx)
		}
		return tx.Rollback(context.WithoutCancel(ctx))
	case interface { // *sql.Tx
		Commit() error
		Rollback() error
	}:
		if commit {
			return tx.Commit()
		}
		return tx.Rollback()
	}
	return fmt.Errorf("rivermw: a %T is neither a pgx.Tx nor an *sql.Tx", tx)
}
