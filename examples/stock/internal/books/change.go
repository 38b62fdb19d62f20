package books

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lockmw/go/idempotency/sqlstore"
)

// A Tx is a transaction.
type Tx struct {
	b  *Books
	tx *sql.Tx
}

// tries is the maximum number of tries of a transaction that the database rolls back because of others.
const tries = 20

// A Changer is Change or ChangeInRun.
type Changer func(ctx context.Context, retried func(), fn func(*Tx) error) error

// Change runs fn in a transaction and commits if it returns nil. If the database rolls the transaction back because of a
// deadlock, Change calls retried, unless it is nil, and retries.
func (b *Books) Change(ctx context.Context, retried func(), fn func(*Tx) error) error {
	return b.change(ctx, retried, fn, (*sql.Tx).Commit)
}

// ChangeInRun is Change for a run of an idempotency key whose record is in Records. The same transaction marks the run as done. If a
// later run has begun, it changes nothing and returns sqlstore.ErrSuperseded.
func (b *Books) ChangeInRun(ctx context.Context, retried func(), fn func(*Tx) error) error {
	return b.change(ctx, retried, fn, func(tx *sql.Tx) error { return sqlstore.Commit(ctx, tx) })
}

func (b *Books) change(ctx context.Context, retried func(), fn func(*Tx) error, commit func(*sql.Tx) error) error {
	for try := 1; ; try++ {
		err := b.try(ctx, fn, commit)
		if err == nil || try == tries || !b.dialect.passing(err) {
			return err
		}
		if retried != nil {
			retried()
		}
	}
}

func (b *Books) try(ctx context.Context, fn func(*Tx) error, commit func(*sql.Tx) error) error {
	tx, err := b.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := fn(&Tx{b, tx}); err != nil {
		return err
	}
	return commit(tx)
}

// Exec runs a statement, in which {items}, {buyers} and {orders} stand for the tables and ? for each argument. It returns
// the number of matched rows.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(ctx, t.b.sql(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// StockForUpdate reads the stock and locks the row until the end of the transaction. SQLite has no row locks: here its
// transactions lock the whole database when they begin.
func (t *Tx) StockForUpdate(ctx context.Context, item string) (stock int, err error) {
	query := `SELECT stock FROM {items} WHERE id = ?` + t.b.dialect.forUpdate
	err = t.tx.QueryRowContext(ctx, t.b.sql(query), item).Scan(&stock)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoItem
	}
	return stock, err
}

// Ordered reports whether the user has ordered the item.
func (t *Tx) Ordered(ctx context.Context, item, user string) (bool, error) {
	var n int
	query := `SELECT count(*) FROM {orders} WHERE item = ? AND buyer = ?`
	err := t.tx.QueryRowContext(ctx, t.b.sql(query), item, user).Scan(&n)
	return n > 0, err
}

// AddBuyer records the user as a buyer of the item. It returns false if the user is recorded already; the unique key makes
// this safe for concurrent calls.
func (t *Tx) AddBuyer(ctx context.Context, item, user string) (added bool, err error) {
	n, err := t.Exec(ctx, t.b.dialect.insertOnce+` INTO {buyers} (item, buyer) VALUES (?, ?)`+t.b.dialect.onConflict, item, user)
	return n > 0, err
}

// AddOrder stores an order without a receipt.
func (t *Tx) AddOrder(ctx context.Context, item, user string) error {
	return t.AddOrderWithReceipt(ctx, item, user, "")
}

// AddOrderWithReceipt stores an order and its receipt.
func (t *Tx) AddOrderWithReceipt(ctx context.Context, item, user, receipt string) error {
	_, err := t.Exec(ctx, `INSERT INTO {orders} (item, buyer, receipt) VALUES (?, ?, ?)`, item, user, receipt)
	return err
}
