package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	table   string
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
	err := d.check()
	if err == nil {
		err = checkTable(c.table)
	}
	if err == nil && db == nil {
		err = fmt.Errorf("%w: the *sql.DB is nil", lockmw.ErrInvalidOption)
	}
	if err != nil {
		panic(fmt.Errorf("sqlstore.New: %w", err))
	}
	return &Store{db: db, dialect: d, table: c.table, sql: newStatements(d, c.table)}
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

var errUnsteady = errors.New("the row was inserted and deleted by turns")

// Begin implements idempotency.Store. If the row of the key is locked, it returns an error that wraps idempotency.ErrInFlight and
// lockmw.ErrBusy. In SQLite all rows are locked while another transaction writes.
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Record, error) {
	rec, err := s.beginOnce(ctx, &c)
	switch {
	case errors.Is(err, idempotency.ErrSuperseded):
		return rec, err
	case s.dialect.isLocked(err):
		err = fmt.Errorf("%w: %w", errInFlight, err)
	}
	return rec, failed("begin", c.Key, err)
}

func (s *Store) beginOnce(ctx context.Context, c *idempotency.Claim) (idempotency.Record, error) {
	for range tries {
		// A single statement opens a new record, so that no transaction stays open if this process stops. It comes after a look,
		// because it would wait for a transaction that has changed the row.
		r, err := read(ctx, s.db, s.sql.look, c.Key)
		if err != nil {
			return idempotency.Record{}, err
		}
		if r == nil {
			first, begun, err := idempotency.Record{}.Next(*c, false)
			if !begun || err != nil {
				return first, err
			}
			inserted, err := s.insert(ctx, c.Key, &row{Record: first}, c.TTL)
			if err != nil {
				return idempotency.Record{}, err
			}
			if inserted {
				first.Began = time.Now() // more or less
				return first, nil
			}
		}
		rec, found, err := s.beginAgain(ctx, c)
		if found || err != nil {
			return rec, err
		}
	}
	return idempotency.Record{}, errUnsteady
}

// insert inserts the row of a key, and reports false if there is one.
func (s *Store) insert(ctx context.Context, key string, r *row, ttl time.Duration) (bool, error) {
	res, err := s.db.ExecContext(ctx, s.sql.insert,
		key, r.State.String(), fingerprint(&r.Record), r.Run, r.Token, formatVoids(r.voids), ttl.Microseconds())
	if err == nil {
		return changed(res)
	}
	// In MySQL a row that exists is an error, which drivers have no common way to say.
	if there, lookErr := read(ctx, s.db, s.sql.look, key); lookErr == nil && there != nil {
		return false, nil
	}
	return false, err
}

// beginAgain begins a run in a row that exists. found is whether it does.
func (s *Store) beginAgain(ctx context.Context, c *idempotency.Claim) (rec idempotency.Record, found bool, err error) {
	err = s.inTx(ctx, func(q querier) error {
		r, err := read(ctx, q, s.sql.lock, c.Key)
		if r == nil || err != nil {
			return err
		}
		found = true
		next, begun, err := r.Next(*c, r.isVoid(c.Run))
		rec = next
		if err != nil || !begun {
			return err
		}
		rec.Began = time.UnixMicro(r.now)
		_, err = q.ExecContext(ctx, s.sql.begin, fingerprint(&next), next.Run, next.Token, next.Earlier, next.Silent,
			formatVoids(r.voids), c.TTL.Microseconds(), c.Key)
		return err
	})
	return rec, found, err
}

// fingerprint returns what is stored of a record's fingerprint.
func fingerprint(r *idempotency.Record) []byte {
	if r.State == idempotency.None {
		return []byte{}
	}
	return r.Fingerprint[:]
}

func changed(res sql.Result) (bool, error) {
	n, err := res.RowsAffected()
	return n > 0, err
}
