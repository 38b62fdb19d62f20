package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// Commit marks the run that ctx belongs to as done, and commits tx, the transaction with all effects of the run. ctx comes from
// the run: it is the context of the function of idempotency.Do, or of the request behind httpmw.Idempotent. Nothing may be
// written with tx after Commit. From then on the work counts as done, whatever the run returns, even if it panics.
//
// If the run may not commit any more, Commit rolls back and returns ErrSuperseded. The same happens if tx cannot see that the run
// has begun: it has isolation REPEATABLE READ or higher, and has read before the run began. Commit also rolls back, with another
// error, if ctx does not belong to a run of a Store of this package, or if the mark cannot be set. For example, PostgreSQL reports a
// serialization failure if the record has changed since a transaction with isolation REPEATABLE READ has begun.
//
// An error of COMMIT itself leaves it unknown whether the transaction was committed, for example because the connection broke. The
// handler should return the error: the record says, at the next attempt, whether the run has committed.
//
// After an error the run cannot record an answer, unless the transaction was committed nevertheless.
func Commit(ctx context.Context, tx *sql.Tx) error {
	if tx == nil {
		return failed("commit", "", fmt.Errorf("%w: the *sql.Tx is nil", lockmw.ErrInvalidOption))
	}
	s, run, err := runOf(ctx)
	if err != nil {
		_ = tx.Rollback() // if that fails, the database does it when the connection closes
		return failed("commit: rolled back", "", err)
	}
	if err := s.mark(ctx, tx, run); err != nil {
		_ = tx.Rollback()
		s.refused.Store(run.ID(), true)
		if errors.Is(err, ErrSuperseded) {
			return err
		}
		return failed("commit: rolled back", run.LockKey(), err)
	}
	if err := tx.Commit(); err != nil {
		s.refused.Store(run.ID(), true)
		return failed("commit: it is unknown whether the transaction was committed", run.LockKey(), err)
	}
	s.refused.Delete(run.ID())
	return nil
}

// runOf returns the innermost run that ctx belongs to, and its Store.
func runOf(ctx context.Context) (*Store, *idempotency.Run, error) {
	run, ok := idempotency.FromContext(ctx)
	if !ok {
		return nil, nil, fmt.Errorf("%w: the context does not belong to a run: use that of the run", lockmw.ErrInvalidOption)
	}
	s, ok := run.Store().(*Store)
	if !ok {
		return nil, nil, fmt.Errorf("%w: the records of the run are in a %T, not in a database", lockmw.ErrInvalidOption, run.Store())
	}
	return s, run, nil
}

// mark marks the run as committed, in tx.
func (s *Store) mark(ctx context.Context, tx *sql.Tx, run *idempotency.Run) error {
	if s.dialect == MySQL {
		// An UPDATE of InnoDB ignores the snapshot of the transaction. This SELECT does not.
		var one int
		err := tx.QueryRowContext(ctx, s.sql.seen, run.LockKey(), run.ID()).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrSuperseded
		}
		if err != nil {
			return err
		}
	}
	n, err := execute(ctx, tx, s.sql.mark, run.LockKey(), run.ID())
	if err == nil && n == 0 {
		err = ErrSuperseded
	}
	return err
}
