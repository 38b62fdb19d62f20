package sqlstoretest

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
	"github.com/lockmw/go/lockmw"
)

// do runs work for someKey. The request is always the same.
func do(t *testing.T, once *idempotency.Runner, p idempotency.Policy, work func(ctx context.Context) (string, error)) (string, error) {
	t.Helper()
	return idempotency.Do(t.Context(), once, someKey, "tea", p, func(ctx context.Context, _ string) (string, error) { return work(ctx) })
}

func (b *testbed) runner(locks lockmw.Locker) *idempotency.Runner {
	return idempotency.New(locks, idempotency.WithStore(b.store), idempotency.WithWait(0))
}

func (b *testbed) begin(ctx context.Context, db *sql.DB) *sql.Tx {
	b.Helper()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	return tx
}

// order inserts an order in tx.
func (b *testbed) order(ctx context.Context, tx *sql.Tx, item string) error {
	_, err := tx.ExecContext(ctx, b.sql(`INSERT INTO `+b.orders+` (item) VALUES (?)`), item)
	return err
}

// place inserts an order in a transaction of its own, and returns the error of Commit.
func (b *testbed) place(ctx context.Context, db *sql.DB, item string) error {
	b.Helper()
	tx := b.begin(ctx, db)
	defer tx.Rollback()
	if err := b.order(ctx, tx, item); err != nil {
		b.Error(err)
	}
	return sqlstore.Commit(ctx, tx)
}

// hasOrders compares the orders that there are.
func (b *testbed) hasOrders(want ...string) {
	b.Helper()
	rows, err := b.db.QueryContext(context.Background(), `SELECT item FROM `+b.orders+` ORDER BY item`)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var item string
		if err := rows.Scan(&item); err != nil {
			b.Fatal(err)
		}
		got = append(got, item)
	}
	if err := rows.Err(); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		b.Errorf("the orders are %q, %v, want %q", got, err, want)
	}
}

func notCalled(t *testing.T) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		t.Error("the work ran again")
		return "", nil
	}
}
