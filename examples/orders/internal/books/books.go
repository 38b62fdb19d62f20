// Package books is the shop's database.
package books

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

const schema = `
CREATE TABLE users   (id TEXT PRIMARY KEY, fence INTEGER NOT NULL); -- users who have ordered
CREATE TABLE items   (id TEXT PRIMARY KEY, stock INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0);
CREATE TABLE orders  (id INTEGER PRIMARY KEY, user TEXT NOT NULL, item TEXT NOT NULL,
                      shipped INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0,
                      announced INTEGER NOT NULL DEFAULT (unixepoch())); -- to the workers, at this time
CREATE TABLE parcels (order_id INTEGER NOT NULL);
CREATE INDEX orders_user  ON orders (user);
CREATE INDEX parcels_order ON parcels (order_id);
`

// Errors of statements on a working database.
var (
	ErrNoItem = errors.New("there is no such item")
	// ErrFenced means that another call has written since we read, or that a holder with a later token had
	// already written. So the lock was lost without its holder noticing, or there was no lock.
	ErrFenced = errors.New("the fencing token is out of date")
)

// Books are the tables of one shop. SQLite allows one writer at a time. All writes queue for a single
// connection, so that no write fails because of another.
type Books struct {
	read, write *sql.DB
}

// Open creates the database in a folder.
func Open(ctx context.Context, dir string) (*Books, error) {
	dsn := "file:" + filepath.ToSlash(filepath.Join(dir, "orders.db")) +
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)&_txlock=immediate"
	write, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	if _, err := write.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the database: %w", err), write.Close())
	}
	read, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(8)
	read.SetMaxIdleConns(8)
	return &Books{read: read, write: write}, nil
}

// Close closes the database.
func (b *Books) Close() error { return errors.Join(b.read.Close(), b.write.Close()) }

// Change runs fn in a transaction, and commits if it returns nil.
func (b *Books) Change(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := b.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Fenced returns ErrFenced if an update that checks the fence in its WHERE clause changed no row.
func Fenced(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return ErrFenced
}

// Offer puts items into the shop.
func (b *Books) Offer(ctx context.Context, items []string, stock int) error {
	return b.Change(ctx, func(tx *sql.Tx) error {
		for _, item := range items {
			if _, err := tx.ExecContext(ctx, `INSERT INTO items (id, stock) VALUES (?, ?)`, item, stock); err != nil {
				return err
			}
		}
		return nil
	})
}

// HasOrder reports whether the user has an order, and returns the user's fence.
func (b *Books) HasOrder(ctx context.Context, user string) (has bool, fence int64, err error) {
	err = b.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM orders WHERE user = ?1),
		coalesce((SELECT fence FROM users WHERE id = ?1), 0)`, user).Scan(&has, &fence)
	return has, fence, err
}

// Stock returns the stock of the item and its fence, or ErrNoItem.
func (b *Books) Stock(ctx context.Context, item string) (n int, fence int64, err error) {
	err = b.read.QueryRowContext(ctx, `SELECT stock, fence FROM items WHERE id = ?`, item).Scan(&n, &fence)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, ErrNoItem
	}
	return n, fence, err
}

// Shipped reports whether the order is marked as shipped, and returns its fence.
func (b *Books) Shipped(ctx context.Context, order int64) (done bool, fence int64, err error) {
	err = b.read.QueryRowContext(ctx, `SELECT shipped, fence FROM orders WHERE id = ?`, order).Scan(&done, &fence)
	return done, fence, err
}

// Collect records a parcel. It runs in the transaction that marks the order as shipped, so that an order whose mark is
// refused has no parcel.
func Collect(ctx context.Context, tx *sql.Tx, order int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO parcels (order_id) VALUES (?)`, order)
	return err
}

// An Order is a stored order.
type Order struct {
	ID   int64
	Item string
}

// Forgotten returns the unshipped orders whose last announcement to the workers, successful or not, is at least this many
// seconds old. It marks them as announced now.
func (b *Books) Forgotten(ctx context.Context, seconds int) (list []Order, err error) {
	rows, err := b.write.QueryContext(ctx, `UPDATE orders SET announced = unixepoch()
		WHERE shipped = 0 AND announced <= unixepoch() - ? RETURNING id, item`, seconds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var o Order
		if err := rows.Scan(&o.ID, &o.Item); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

// Unshipped returns the number of unshipped orders.
func (b *Books) Unshipped(ctx context.Context) (n int, err error) {
	err = b.read.QueryRowContext(ctx, `SELECT count(*) FROM orders WHERE shipped = 0`).Scan(&n)
	return n, err
}
