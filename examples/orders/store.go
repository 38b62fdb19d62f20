package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

const schema = `
CREATE TABLE items   (id TEXT PRIMARY KEY, stock INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0);
CREATE TABLE orders  (id INTEGER PRIMARY KEY, user TEXT NOT NULL, item TEXT NOT NULL,
                      shipped INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0);
CREATE TABLE parcels (order_id INTEGER NOT NULL);
CREATE INDEX orders_user  ON orders (user);
CREATE INDEX parcels_order ON parcels (order_id);
`

var (
	errNoItem = errors.New("there is no such item")
	// errFenced: somebody with a later token has been here, so our lock was lost without our knowing.
	errFenced = errors.New("the fencing token is out of date")
)

// A store is the shop's database. SQLite allows one writer at a time; writes queue for the one
// connection that makes them, so that none of them ever fails because another is under way.
type store struct {
	read, write *sql.DB
}

func openStore(ctx context.Context, dir string) (*store, error) {
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
	return &store{read: read, write: write}, nil
}

func (s *store) close() error { return errors.Join(s.read.Close(), s.write.Close()) }

// offer puts items into the shop.
func (s *store) offer(ctx context.Context, items []string, stock int) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		for _, item := range items {
			if _, err := tx.ExecContext(ctx, `INSERT INTO items (id, stock) VALUES (?, ?)`, item, stock); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *store) hasOrder(ctx context.Context, user string) (has bool, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM orders WHERE user = ?)`, user).Scan(&has)
	return has, err
}

func (s *store) stock(ctx context.Context, item string) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT stock FROM items WHERE id = ?`, item).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errNoItem
	}
	return n, err
}

// place takes one item out of stock and stores the order, provided that no later holder of the
// item's lock has written before. The token is stored, and "<=" lets its owner write again.
func (s *store) place(ctx context.Context, o order, token int64) (id int64, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		const take = `UPDATE items SET stock = stock - 1, fence = ? WHERE id = ? AND fence <= ?`
		if err := fenced(tx.ExecContext(ctx, take, token, o.Item, token)); err != nil {
			return err
		}
		const insert = `INSERT INTO orders (user, item, fence) VALUES (?, ?, ?)`
		res, err := tx.ExecContext(ctx, insert, o.User, o.Item, token)
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	return id, err
}

func (s *store) shipped(ctx context.Context, order int64) (done bool, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT shipped FROM orders WHERE id = ?`, order).Scan(&done)
	return done, err
}

func (s *store) markShipped(ctx context.Context, order, token int64) error {
	const mark = `UPDATE orders SET shipped = 1, fence = ? WHERE id = ? AND fence <= ?`
	return fenced(s.write.ExecContext(ctx, mark, token, order, token))
}

// collect is the carrier's book: one line for every parcel that left the house.
func (s *store) collect(ctx context.Context, order int64) error {
	_, err := s.write.ExecContext(ctx, `INSERT INTO parcels (order_id) VALUES (?)`, order)
	return err
}

func fenced(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errFenced
}

func (s *store) change(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// An itemState is one line of GET /items.
type itemState struct {
	Item    string `json:"item"`
	Stock   int    `json:"stock"`
	Orders  int    `json:"orders"`
	Shipped int    `json:"shipped"`
}

func (s *store) items(ctx context.Context) (list []itemState, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT items.id, stock, count(orders.id), coalesce(sum(shipped), 0)
		FROM items LEFT JOIN orders ON orders.item = items.id GROUP BY items.id ORDER BY items.rowid`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var i itemState
		if err := rows.Scan(&i.Item, &i.Stock, &i.Orders, &i.Shipped); err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, rows.Err()
}

// An audit is what the books say after the sale.
type audit struct {
	oversold   int // orders beyond an item's stock
	duplicates int // orders beyond a user's first
	shipped    int // orders of which a parcel left the house
	twice      int // … and of which more than one did
	parcels    map[int64]int
}

func (s *store) audit(ctx context.Context, stock int) (a audit, err error) {
	const count = `SELECT
		(SELECT coalesce(sum(max(n - ?, 0)), 0) FROM (SELECT count(*) AS n FROM orders GROUP BY item)),
		(SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM orders GROUP BY user))`
	if err := s.read.QueryRowContext(ctx, count, stock).Scan(&a.oversold, &a.duplicates); err != nil {
		return a, err
	}
	rows, err := s.read.QueryContext(ctx, `SELECT orders.id, count(*) FROM orders
		JOIN parcels ON parcels.order_id = orders.id GROUP BY orders.id`)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	a.parcels = make(map[int64]int)
	for rows.Next() {
		var order int64
		var n int
		if err := rows.Scan(&order, &n); err != nil {
			return a, err
		}
		a.parcels[order] = n
		a.shipped++
		if n > 1 {
			a.twice++
		}
	}
	return a, rows.Err()
}
