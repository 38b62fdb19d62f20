package ways

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/lockmw"
)

// byLockmw are the ways with locks of lockmw.
func byLockmw() []Way {
	return []Way{
		{Name: "lockmw-item", Does: "lockmw, a lock per item", Kept: true, Open: openItem},
		{Name: "lockmw-fine", Does: "lockmw, a lock per user, then one per item", Kept: true, Open: openFine},
		{Name: "lockmw-token", Does: "lockmw, token checked in SQL", Kept: true, Open: openToken},
		{Name: "lockmw-failover", Does: "the same, all locks lost again and again", Kept: true, Open: openToken, Disturb: LoseLocks},
	}
}

func (e *Env) openLocks() (*lockmw.Client, error) {
	locks, err := lockmw.New(e.Redis, lockmw.WithPrefix(e.Name+":lock"), lockmw.WithLease(e.Lease))
	if err == nil {
		e.OnClose(locks.Close)
	}
	return locks, err
}

func itemKey(c *Call) string { return lockmw.Key("item", c.Item) }
func userKey(c *Call) string { return lockmw.Key("user", c.User) }

// openItem locks the item while somebody buys it, payment and all.
func openItem(e *Env) (Buy, error) {
	locks, err := e.openLocks()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		err := lockmw.Do(ctx, locks, itemKey(c), func(ctx context.Context) error {
			if err := c.at(ctx, Acquired); err != nil {
				return err
			}
			if !c.Nested {
				return e.buy(ctx, c)
			}
			return lockmw.Do(ctx, locks, itemKey(c), func(ctx context.Context) error { return e.buy(ctx, c) })
		}, lockmw.WithWait(c.Patience))
		return asOurs(err)
	}, nil
}

// openFine locks the user while they buy, which refuses their second click at once, and the item only while its row is
// read and written.
func openFine(e *Env) (Buy, error) {
	locks, err := e.openLocks()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		ctx, user, err := locks.Lock(ctx, userKey(c), lockmw.WithWait(0))
		if errors.Is(err, lockmw.ErrBusy) {
			return ErrSecond // of a double click, and the first is at work
		}
		if err != nil {
			return asOurs(err)
		}
		defer user.Unlock()
		if _, err := e.look(ctx, c); err != nil {
			return asOurs(err)
		}
		if err := e.Pay(ctx); err != nil {
			return asOurs(err)
		}
		return asOurs(lockmw.Do(ctx, locks, itemKey(c), func(ctx context.Context) error {
			v, err := e.look(ctx, c)
			if err != nil {
				return err // and the bank gives the money back
			}
			if ctx, err = c.send(ctx); err != nil {
				return err
			}
			return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error { return write(ctx, tx, c, v.Stock-1) })
		}, lockmw.WithWait(c.Patience)))
	}, nil
}

// openToken is openItem, and has the database refuse what a holder writes that has lost its lock without knowing.
func openToken(e *Env) (Buy, error) {
	locks, err := e.openLocks()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		err := lockmw.Do(ctx, locks, itemKey(c), func(ctx context.Context) error {
			if err := c.at(ctx, Acquired); err != nil {
				return err
			}
			return e.buyWithToken(ctx, c)
		}, lockmw.WithWait(c.Patience))
		return asOurs(err)
	}, nil
}

func (e *Env) buyWithToken(ctx context.Context, c *Call) error {
	hold, err := lockmw.Held(ctx, itemKey(c))
	if err != nil {
		return err
	}
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
	return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error {
		// A later holder has written if the fence is above the token, and an earlier one has since we read if it is not
		// what we saw.
		n, err := tx.Exec(ctx, `UPDATE {items} SET stock = ?, version = version + 1, fence = ?
			WHERE id = ? AND fence <= ? AND fence = ?`, v.Stock-1, hold.Token(), c.Item, hold.Token(), v.Fence)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrLost
		}
		return tx.AddOrder(ctx, c.Item, c.User)
	})
}

// asOurs names what a lock says as the other ways do.
func asOurs(err error) error {
	switch {
	case errors.Is(err, lockmw.ErrBusy):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, lockmw.ErrLost):
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// LoseLocks makes Redis forget all locks, as a fail-over does to a replica that has not heard of them.
func LoseLocks(ctx context.Context, e *Env) error {
	keys := e.Redis.Scan(ctx, 0, e.Name+":lock*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := e.Redis.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
