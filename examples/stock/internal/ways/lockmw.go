package ways

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/lockmw"
)

// byLockmw returns the ways with lockmw.
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

// openItem locks the item during a whole purchase, including the payment.
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

// openFine locks the user during a purchase, so that a second click is refused immediately. It locks the item only while its
// row is read and written.
func openFine(e *Env) (Buy, error) {
	locks, err := e.openLocks()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		ctx, user, err := locks.Lock(ctx, userKey(c), lockmw.WithWait(0))
		if errors.Is(err, lockmw.ErrBusy) {
			return ErrSecond // a double click whose first click is running
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
				return err // a real shop would refund the payment
			}
			if ctx, err = c.send(ctx); err != nil {
				return err
			}
			return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error { return write(ctx, tx, c, v.Stock-1) })
		}, lockmw.WithWait(c.Patience)))
	}, nil
}

// openToken is openItem with a check in the database, which refuses the write of a holder that has lost its lock unnoticed.
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
		// A fence above the token means that a later holder has written. Another fence than the one read means that an
		// earlier holder has written since.
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

// asOurs converts errors of lockmw to the errors of the other ways.
func asOurs(err error) error {
	switch {
	case errors.Is(err, lockmw.ErrBusy):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, lockmw.ErrLost):
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// LoseLocks deletes all locks from Redis, as after a fail-over to a replica that lacks them.
func LoseLocks(ctx context.Context, e *Env) error {
	keys := e.Redis.Scan(ctx, 0, e.Name+":lock*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := e.Redis.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
