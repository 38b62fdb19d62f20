package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/idempotency"
)

// A querier is a *sql.DB, a *sql.Tx or a *sql.Conn.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A row is a record as it is stored.
type row struct {
	idempotency.Record
	voids []voidRun
	now   int64 // microseconds since 1970, by the database's clock
}

type voidRun struct {
	run  string
	made int64 // microseconds since 1970
}

// read reads a row with the statement look or lock; nil if there is none. Of an expired row, only the time is left.
func read(ctx context.Context, q querier, statement, key string) (*row, error) {
	var r row
	var state, voids string
	var fingerprint []byte
	var began int64
	var returned, live int
	err := q.QueryRowContext(ctx, statement, key).Scan(
		&state, &fingerprint, &r.Run, &r.Token, &r.Earlier, &r.Silent, &returned, &began, &r.Answer, &voids, &r.now, &live)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case live == 0:
		return &row{now: r.now}, nil
	}
	if r.State, err = parseState(state); err != nil {
		return nil, err
	}
	copy(r.Fingerprint[:], fingerprint)
	r.Returned, r.Began, r.voids = returned != 0, time.UnixMicro(began), parseVoids(voids)
	return &r, nil
}

// values returns the columns that change together, in the order of updateSQL.
func (r *row) values() []any {
	fingerprint, returned := r.Fingerprint[:], 0
	if r.State == idempotency.None {
		fingerprint = []byte{}
	}
	if r.Returned {
		returned = 1
	}
	return []any{r.State.String(), fingerprint, r.Run, r.Token, r.Earlier, r.Silent, returned, formatVoids(r.voids)}
}

func parseState(s string) (idempotency.State, error) {
	for state := idempotency.None; state <= idempotency.Done; state++ {
		if state.String() == s {
			return state, nil
		}
	}
	return 0, fmt.Errorf("a record has the unknown state %q", s)
}

// isVoid reports whether a run was made void.
func (r *row) isVoid(run string) bool {
	return slices.ContainsFunc(r.voids, func(v voidRun) bool { return v.run == run })
}

// parseVoids parses a text that formatVoids made.
func parseVoids(text string) (voids []voidRun) {
	for v := range strings.FieldsSeq(text) {
		run, made, _ := strings.Cut(v, ":")
		at, _ := strconv.ParseInt(made, 10, 64)
		voids = append(voids, voidRun{run, at})
	}
	return voids
}

func formatVoids(voids []voidRun) string {
	texts := make([]string, len(voids))
	for i, v := range voids {
		texts[i] = v.run + ":" + strconv.FormatInt(v.made, 10)
	}
	return strings.Join(texts, " ")
}

// inTx runs f in a transaction of its own. If it returns an error that isLocked reports, nothing has changed.
func (s *Store) inTx(ctx context.Context, f func(querier) error) error {
	if s.dialect == SQLite {
		return s.immediately(ctx, f)
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// immediately is inTx for SQLite, where database/sql begins transactions that do not lock. Two of them could both read a record,
// and then one could not write.
func (s *Store) immediately(ctx context.Context, f func(querier) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		if !s.dialect.isLocked(err) {
			discard(conn) // it may have begun
		}
		return err
	}
	if err = f(conn); err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		if _, open := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); open != nil {
			discard(conn)
		}
	}
	return err
}

// discard closes the connection, which may be in a transaction, for good.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }
