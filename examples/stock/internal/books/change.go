package books

import (
	"context"
	"database/sql"
	"errors"
)

// A Tx is a transaction.
type Tx struct {
	b  *Books
	tx *sql.Tx
}

// tries is how often a transaction is begun that the database rolls back because of others.
const tries = 20

// Change runs fn in a transaction, and commits if it returns nil. If the database rolls it back for a deadlock, it is
// tried again: retried is called each time, unless it is nil.
func (b *Books) Change(ctx context.Context, retried func(), fn func(*Tx) error) error {
	for try := 1; ; try++ {
		err := b.try(ctx, fn)
		if err == nil || try == tries || !b.dialect.passing(err) {
			return err
		}
		if retried != nil {
			retried()
		}
	}
}

func (b *Books) try(ctx context.Context, fn func(*Tx) error) error {
	tx, err := b.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := fn(&Tx{b, tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// Exec runs a statement with {items}, {buyers} and {orders} for the tables and ? for each argument. It returns how many
// rows it has found.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(ctx, t.b.sql(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// StockForUpdate reads the stock and locks the row until the end of the transaction. SQLite has no locks of rows: its
// transactions have locked the whole database when they begin.
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

// AddBuyer notes that the user buys the item. It returns false if they have done so: the unique key says it, whoever
// else tries at the same time.
func (t *Tx) AddBuyer(ctx context.Context, item, user string) (added bool, err error) {
	n, err := t.Exec(ctx, t.b.dialect.insertOnce+` INTO {buyers} (item, buyer) VALUES (?, ?)`+t.b.dialect.onConflict, item, user)
	return n > 0, err
}

// AddOrder stores an order.
func (t *Tx) AddOrder(ctx context.Context, item, user string) error {
	_, err := t.Exec(ctx, `INSERT INTO {orders} (item, buyer) VALUES (?, ?)`, item, user)
	return err
}
