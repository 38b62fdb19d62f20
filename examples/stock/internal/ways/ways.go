// Package ways sells the last items of a shop in many ways. Each way keeps, or fails to keep, two promises: it sells no more
// than the stock, and no user has two orders.
package ways

import (
	"context"
	"sync"

	"github.com/lockmw/go/examples/stock/internal/books"
)

// A Way is one way to sell.
type Way struct {
	Name      string
	Does      string // in a few words
	Kept      bool   // it keeps both promises under any load
	Alone     bool   // it is meant for a single process
	Memcached bool   // it needs Memcached

	// Open prepares sales in one process. It registers its resources with OnClose.
	Open func(*Env) (Buy, error)

	// Offer stores an item outside the books, for ways that need it. It may be nil.
	Offer func(ctx context.Context, e *Env, item string, stock int) error

	// Left returns the remaining stock of ways that count outside the books. It may be nil.
	Left func(ctx context.Context, e *Env, item string) (int, error)

	// Disturb is called repeatedly under load. It may be nil.
	Disturb func(ctx context.Context, e *Env) error
}

// Buy sells one item to a user, or returns an error with the reason.
type Buy func(ctx context.Context, c *Call) error

// All lists the ways, from the naive ones to those that keep their promises.
func All() []Way {
	var all []Way
	for _, family := range [][]Way{unguarded(), inSQL(), bySetNX(), byMemcached(), inRedis(), byLockmw(), byKey()} {
		all = append(all, family...)
	}
	return all
}

// unguarded returns the ways without a lock, or with one that is limited to a process.
func unguarded() []Way {
	return []Way{
		{Name: "none", Does: "read, check, write", Open: func(e *Env) (Buy, error) { return e.buy, nil }},
		{Name: "mutex-one", Does: "sync.Mutex, one process", Kept: true, Alone: true, Open: openMutex},
		{Name: "mutex", Does: "sync.Mutex, two processes", Open: openMutex},
	}
}

func openMutex(e *Env) (Buy, error) {
	var mu sync.Mutex
	return func(ctx context.Context, c *Call) error {
		mu.Lock()
		defer mu.Unlock()
		return e.buy(ctx, c)
	}, nil
}

// buy reads, checks and writes. Without a lock, other calls may do the same in between.
func (e *Env) buy(ctx context.Context, c *Call) error {
	v, err := e.look(ctx, c)
	if err != nil {
		return err
	}
	if err := e.Pay(ctx); err != nil {
		return err
	}
	if ctx, err = c.send(ctx); err != nil {
		return err
	}
	err = e.Books.Change(ctx, c.retried, func(tx *books.Tx) error { return write(ctx, tx, c, v.Stock-1) })
	if err != nil {
		return err
	}
	return c.at(ctx, Written)
}

// look reads the item and checks whether the user can buy it.
func (e *Env) look(ctx context.Context, c *Call) (books.View, error) {
	v, err := e.Books.View(ctx, c.Item, c.User)
	switch {
	case err != nil:
		return v, err
	case v.Ordered:
		return v, ErrSecond
	case v.Stock <= 0:
		return v, ErrSoldOut
	}
	return v, c.at(ctx, Read)
}

// write stores an order and the remaining stock.
func write(ctx context.Context, tx *books.Tx, c *Call, left int) error {
	_, err := tx.Exec(ctx, `UPDATE {items} SET stock = ?, version = version + 1 WHERE id = ?`, left, c.Item)
	if err != nil {
		return err
	}
	return tx.AddOrder(ctx, c.Item, c.User)
}
