package books

import (
	"context"
	"errors"
)

// An Item is one line of GET /items.
type Item struct {
	Item    string `json:"item"`
	Stock   int    `json:"stock"`
	Orders  int    `json:"orders"`
	Shipped int    `json:"shipped"`
}

// Items lists all items, the oldest first.
func (b *Books) Items(ctx context.Context) (list []Item, err error) {
	rows, err := b.read.QueryContext(ctx, `SELECT items.id, stock, count(orders.id), coalesce(sum(shipped), 0)
		FROM items LEFT JOIN orders ON orders.item = items.id GROUP BY items.id ORDER BY items.rowid`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var i Item
		if err := rows.Scan(&i.Item, &i.Stock, &i.Orders, &i.Shipped); err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, rows.Err()
}

// An Audit is the state of the books after the sale.
type Audit struct {
	Oversold   int // orders beyond an item's stock
	Duplicates int // orders beyond a user's first
	Shipped    int // orders with at least one parcel
	Twice      int // orders with more than one parcel
	Parcels    map[int64]int
}

// Audit compares the books with the initial stock of each item.
func (b *Books) Audit(ctx context.Context, stock int) (a Audit, err error) {
	const count = `SELECT
		(SELECT coalesce(sum(max(n - ?, 0)), 0) FROM (SELECT count(*) AS n FROM orders GROUP BY item)),
		(SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM orders GROUP BY user))`
	if err := b.read.QueryRowContext(ctx, count, stock).Scan(&a.Oversold, &a.Duplicates); err != nil {
		return a, err
	}
	rows, err := b.read.QueryContext(ctx, `SELECT orders.id, count(*) FROM orders
		JOIN parcels ON parcels.order_id = orders.id GROUP BY orders.id`)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	a.Parcels = make(map[int64]int)
	for rows.Next() {
		var order int64
		var n int
		if err := rows.Scan(&order, &n); err != nil {
			return a, err
		}
		a.Parcels[order] = n
		a.Shipped++
		if n > 1 {
			a.Twice++
		}
	}
	return a, rows.Err()
}
