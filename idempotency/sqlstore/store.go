package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Store keeps records in a table. Make it with New. Safe for concurrent use.
type Store struct {
	db      *sql.DB
	dialect Dialect
	sql     *statements
	refused sync.Map // runs whose Commit has failed
}

var _ idempotency.Store = (*Store)(nil)

// New returns a Store for idempotency.WithStore. db is the primary of the database that the work changes. New does not connect. The
// table must exist: see Schema.
//
// New panics with an error that wraps lockmw.ErrInvalidOption if db is nil, or the dialect or an option is invalid.
func New(db *sql.DB, d Dialect, opts ...Option) *Store {
	c := config{table: DefaultTable}
	option.Apply(&c, "sqlstore.New", opts)
	err := check(d, c.table)
	if err == nil && db == nil {
		err = fmt.Errorf("%w: the *sql.DB is nil", lockmw.ErrInvalidOption)
	}
	if err != nil {
		panic(fmt.Errorf("sqlstore.New: %w", err))
	}
	return &Store{db: db, dialect: d, sql: newStatements(d, c.table)}
}

// Look implements idempotency.Store.
func (s *Store) Look(ctx context.Context, key string) (idempotency.Record, error) {
	r, err := read(ctx, s.db, s.sql.look, key)
	if r == nil {
		r = &row{}
	}
	return r.Record, failed("look", key, err)
}

// tries is how often an operation is tried whose row comes and goes. Cleanup removes rows, but only expired ones.
const tries = 3

// Begin implements idempotency.Store. If the row of the key is locked, it returns an error that wraps idempotency.ErrInFlight and
// lockmw.ErrBusy. In SQLite all rows are locked while another transaction writes.
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (rec idempotency.Record, err error) {
	err = s.change(ctx, c.Key, c.TTL, s.sql.begin, func(r *row) (args []any, err error) {
		next, begun, err := r.Next(c, r.isVoid(c.Run))
		if rec = next; err != nil || !begun {
			return nil, err
		}
		r.Record, rec.Began = next, time.UnixMicro(r.now)
		return append(r.values(), c.TTL.Microseconds(), c.Key), nil
	})
	switch {
	case errors.Is(err, idempotency.ErrSuperseded):
		return rec, err
	case s.dialect.isLocked(err):
		err = fmt.Errorf("%w: its row is locked: %w: %w", idempotency.ErrInFlight, lockmw.ErrBusy, err)
	}
	return rec, failed("begin", c.Key, err)
}

// change lets f change the row of a key, which is empty if there is none. A new row is kept for ttl. For a row that exists, f returns
// the arguments of the statement update. If f returns neither arguments nor an error, nothing is written.
func (s *Store) change(ctx context.Context, key string, ttl time.Duration, update string, f func(*row) (args []any, err error)) error {
	for range tries {
		// A single statement inserts a new row, so that no transaction stays open if this process stops. It comes after a look,
		// because it would wait for a transaction that has changed the row.
		r, err := read(ctx, s.db, s.sql.look, key)
		if err != nil {
			return err
		}
		if r == nil {
			r = &row{now: time.Now().UnixMicro()} // more or less
			if args, err := f(r); args == nil || err != nil {
				return err
			}
			if inserted, err := s.insert(ctx, key, r, ttl); inserted || err != nil {
				return err
			}
		}
		if found, err := s.changeLocked(ctx, key, update, f); found || err != nil {
			return err
		}
	}
	return errors.New("the row was inserted and deleted by turns")
}

// changeLocked is change for a row that exists. found is whether it does.
func (s *Store) changeLocked(ctx context.Context, key, update string, f func(*row) ([]any, error)) (found bool, err error) {
	err = s.inTx(ctx, func(q querier) error {
		r, err := read(ctx, q, s.sql.lock, key)
		if r == nil || err != nil {
			return err
		}
		found = true
		args, err := f(r)
		if args == nil || err != nil {
			return err
		}
		_, err = q.ExecContext(ctx, update, args...)
		return err
	})
	return found, err
}

// insert inserts the row of a key, and reports false if there is one.
func (s *Store) insert(ctx context.Context, key string, r *row, ttl time.Duration) (bool, error) {
	n, err := execute(ctx, s.db, s.sql.insert, slices.Concat([]any{key}, r.values(), []any{ttl.Microseconds()})...)
	if err == nil {
		return n > 0, nil
	}
	// In MySQL a row that exists is an error, which drivers have no common way to say.
	if there, lookErr := read(ctx, s.db, s.sql.look, key); lookErr == nil && there != nil {
		return false, nil
	}
	return false, err
}

// execute executes a statement, and returns how many rows it has changed.
func execute(ctx context.Context, q querier, statement string, args ...any) (int, error) {
	res, err := q.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
