// Package books is the shops' database: SQLite, PostgreSQL, MariaDB or MySQL, with the same statements for all.
package books

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockmw/go/idempotency/sqlstore"
)

// tables are the tables of a run. buyers is for ways that prevent duplicate orders by a unique key; it has a row for each
// of their orders.
var tables = []struct{ name, columns string }{
	{"items", `(id VARCHAR(64) PRIMARY KEY, stock INTEGER NOT NULL,
		version BIGINT NOT NULL DEFAULT 0, fence BIGINT NOT NULL DEFAULT 0)`},
	{"buyers", `(item VARCHAR(64) NOT NULL, buyer VARCHAR(64) NOT NULL, PRIMARY KEY (item, buyer))`},
	{"orders", `(item VARCHAR(64) NOT NULL, buyer VARCHAR(64) NOT NULL, receipt VARCHAR(64) NOT NULL)`},
}

// records is the table of idempotency records: see Records.
const records = "records"

// Books are the tables of one run. They are safe for concurrent use, also by several processes.
type Books struct {
	dialect     *dialect
	prefix      string // of the tables' names
	read, write *sql.DB
}

// Open connects to the database at a URL: sqlite:path, postgres:… or mysql:…. Table names begin with prefix.
func Open(ctx context.Context, url, prefix string) (*Books, error) {
	d, err := dialectOf(url)
	if err != nil {
		return nil, err
	}
	b := &Books{dialect: d, prefix: prefix}
	if b.read, b.write, err = d.open(url); err != nil {
		return nil, err
	}
	if err := b.read.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("no %s answers: %w", d.name, err), b.Close())
	}
	return b, nil
}

// Close closes the connections.
func (b *Books) Close() error {
	err := b.read.Close()
	if b.write != b.read {
		err = errors.Join(err, b.write.Close())
	}
	return err
}

// Database returns the name of the database.
func (b *Books) Database() string { return b.dialect.name }

// Records returns a store for the records of idempotency keys. It is in the same database: see ChangeInRun.
func (b *Books) Records() *sqlstore.Store {
	return sqlstore.New(b.write, b.dialect.records, sqlstore.WithTable(b.prefix+records))
}

// Create creates the tables and checks the rights of the user with sample statements. On an error it drops the tables.
func (b *Books) Create(ctx context.Context) error {
	err := b.create(ctx)
	if err != nil {
		_ = b.Drop(ctx) // the first error has the cause
		return fmt.Errorf("the user of the %s database lacks a right: %w", b.dialect.name, err)
	}
	return nil
}

func (b *Books) create(ctx context.Context) error {
	for _, t := range tables {
		if err := b.exec(ctx, "CREATE TABLE {"+t.name+"} "+t.columns); err != nil {
			return err
		}
	}
	if err := b.exec(ctx, sqlstore.Schema(b.dialect.records, b.prefix+records)); err != nil {
		return err
	}
	if err := b.exec(ctx, `CREATE INDEX {orders}_item ON {orders} (item, buyer)`); err != nil {
		return err
	}
	const probe = "probe"
	if err := b.Offer(ctx, probe, 1); err != nil {
		return err
	}
	return b.Change(ctx, nil, func(tx *Tx) error {
		if _, err := tx.StockForUpdate(ctx, probe); err != nil {
			return err
		}
		for _, statement := range []string{`UPDATE {items} SET stock = 0 WHERE id = ?`, `DELETE FROM {items} WHERE id = ?`} {
			if _, err := tx.Exec(ctx, statement, probe); err != nil {
				return err
			}
		}
		return nil
	})
}

// Drop removes the tables.
func (b *Books) Drop(ctx context.Context) error {
	err := b.exec(ctx, "DROP TABLE IF EXISTS {"+records+"}")
	for _, t := range tables {
		err = errors.Join(err, b.exec(ctx, "DROP TABLE IF EXISTS {"+t.name+"}"))
	}
	return err
}

func (b *Books) exec(ctx context.Context, query string, args ...any) error {
	_, err := b.write.ExecContext(ctx, b.sql(query), args...)
	return err
}

// sql inserts the names of the tables, and the placeholders of the database.
func (b *Books) sql(query string) string {
	query = strings.NewReplacer("{", b.prefix, "}", "").Replace(query)
	if !b.dialect.numbered {
		return query
	}
	parts := strings.Split(query, "?")
	for i := range parts[:len(parts)-1] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// Offer puts an item into the shop.
func (b *Books) Offer(ctx context.Context, item string, stock int) error {
	return b.exec(ctx, `INSERT INTO {items} (id, stock) VALUES (?, ?)`, item, stock)
}

// A View is the data on which a buyer decides.
type View struct {
	Stock          int
	Version, Fence int64
	Ordered        bool // by this user; read after the other fields
}

// ErrNoItem means that the item does not exist.
var ErrNoItem = errors.New("there is no such item")

// View reads an item, and then whether the user has ordered it. It takes no lock.
func (b *Books) View(ctx context.Context, item, user string) (v View, err error) {
	row := b.read.QueryRowContext(ctx, b.sql(`SELECT stock, version, fence FROM {items} WHERE id = ?`), item)
	if err := row.Scan(&v.Stock, &v.Version, &v.Fence); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = ErrNoItem
		}
		return v, err
	}
	v.Ordered, err = b.Ordered(ctx, item, user)
	return v, err
}

// Ordered reports whether the user has ordered the item.
func (b *Books) Ordered(ctx context.Context, item, user string) (bool, error) {
	var n int
	row := b.read.QueryRowContext(ctx, b.sql(`SELECT count(*) FROM {orders} WHERE item = ? AND buyer = ?`), item, user)
	err := row.Scan(&n)
	return n > 0, err
}

// Receipt returns the receipt of a user's order, or "" if there is no order.
func (b *Books) Receipt(ctx context.Context, item, user string) (receipt string, err error) {
	row := b.read.QueryRowContext(ctx, b.sql(`SELECT receipt FROM {orders} WHERE item = ? AND buyer = ?`), item, user)
	if err := row.Scan(&receipt); !errors.Is(err, sql.ErrNoRows) {
		return receipt, err
	}
	return "", nil
}

// HasReceipt reports whether an order of the item has this receipt.
func (b *Books) HasReceipt(ctx context.Context, item, receipt string) (bool, error) {
	var n int
	row := b.read.QueryRowContext(ctx, b.sql(`SELECT count(*) FROM {orders} WHERE item = ? AND receipt = ?`), item, receipt)
	err := row.Scan(&n)
	return n > 0, err
}

// Return deletes a user's order and adds the item to the stock. It raises the version, like every change.
func (b *Books) Return(ctx context.Context, item, user string) error {
	return b.Change(ctx, nil, func(tx *Tx) error {
		n, err := tx.Exec(ctx, `DELETE FROM {orders} WHERE item = ? AND buyer = ?`, item, user)
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE {items} SET stock = stock + 1, version = version + 1 WHERE id = ?`, item)
		return err
	})
}

// An Audit has the figures of an item.
type Audit struct {
	Sold       int // orders
	Oversold   int // orders beyond the stock
	Duplicates int // orders beyond a user's first
}

// Audit compares the orders of an item with its initial stock.
func (b *Books) Audit(ctx context.Context, item string, stock int) (a Audit, err error) {
	var users int
	row := b.read.QueryRowContext(ctx, b.sql(`SELECT count(*), count(DISTINCT buyer) FROM {orders} WHERE item = ?`), item)
	if err := row.Scan(&a.Sold, &users); err != nil {
		return a, err
	}
	a.Oversold = max(0, a.Sold-stock)
	a.Duplicates = a.Sold - users
	return a, nil
}
