// Package ways sells the last items of a shop in many ways. Each keeps, or fails to keep, two promises: no more is sold
// than there is, and nobody orders twice.
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
	Kept      bool   // it keeps both promises, whatever the load
	Alone     bool   // it is meant for one process
	Memcached bool   // it needs one

	// Open makes what sells in one process. What it opens is closed by OnClose.
	Open func(*Env) (Buy, error)

	// Offer puts an item where the way looks for it, beside the books. It may be nil.
	Offer func(ctx context.Context, e *Env, item string, stock int) error

	// Left returns how many the way believes are left, for ways that count elsewhere than in the books. It may be nil.
	Left func(ctx context.Context, e *Env, item string) (int, error)

	// Disturb is called now and then under load. It may be nil.
	Disturb func(ctx context.Context, e *Env) error
}

// Buy sells one item to a user, or returns an error that says why not.
type Buy func(ctx context.Context, c *Call) error

// All lists the ways, from what everybody writes first to what keeps its promises.
func All() []Way {
	var all []Way
	for _, family := range [][]Way{unguarded(), inSQL(), bySetNX(), byMemcached(), inRedis(), byLockmw()} {
		all = append(all, family...)
	}
	return all
}

// unguarded are the ways without a lock, or with one that other processes do not see.
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

// buy reads, checks and writes. Only a lock keeps others from doing the same in between.
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

// look reads what is there, and says whether the user can buy it.
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

// write stores an order, and how many are left.
func write(ctx context.Context, tx *books.Tx, c *Call, left int) error {
	_, err := tx.Exec(ctx, `UPDATE {items} SET stock = ?, version = version + 1 WHERE id = ?`, left, c.Item)
	if err != nil {
		return err
	}
	return tx.AddOrder(ctx, c.Item, c.User)
}
