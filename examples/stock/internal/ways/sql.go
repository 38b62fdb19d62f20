package ways

import (
	"context"
	"errors"

	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/lockmw"
)

// inSQL returns the ways in which the database keeps the promises, or should keep them.
func inSQL() []Way {
	return []Way{
		{Name: "sql-condition", Does: "UPDATE … WHERE stock >= 1, unique buyer", Kept: true, Open: openCondition},
		{Name: "sql-for-update", Does: "SELECT … FOR UPDATE", Kept: true, Open: openForUpdate},
		{Name: "sql-early-unlock", Does: "lock released before COMMIT", Open: openEarlyUnlock},
		{Name: "sql-version", Does: "version column, 5 tries, then a row lock", Kept: true, Open: openOptimistic(byVersion)},
		{Name: "sql-value", Does: "the same, but compares the stock", Open: openOptimistic(byValue)},
	}
}

// openCondition checks and writes in one statement, and prevents duplicate orders by a unique key. It writes the item's row
// last, so that the row is locked for the shortest time.
func openCondition(e *Env) (Buy, error) {
	return func(ctx context.Context, c *Call) error {
		if _, err := e.look(ctx, c); err != nil {
			return err
		}
		if err := e.Pay(ctx); err != nil {
			return err
		}
		return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error { return sellOne(ctx, tx, c) })
	}, nil
}

func sellOne(ctx context.Context, tx *books.Tx, c *Call) error {
	added, err := tx.AddBuyer(ctx, c.Item, c.User)
	if err != nil {
		return err
	}
	if !added {
		return ErrSecond
	}
	if err := tx.AddOrder(ctx, c.Item, c.User); err != nil {
		return err
	}
	return takeOne(ctx, tx, c)
}

// takeOne takes one item from the stock if there is one.
func takeOne(ctx context.Context, tx *books.Tx, c *Call) error {
	n, err := tx.Exec(ctx, `UPDATE {items} SET stock = stock - 1, version = version + 1 WHERE id = ? AND stock >= 1`, c.Item)
	if err == nil && n == 0 {
		return ErrSoldOut // the transaction is rolled back
	}
	return err
}

func openForUpdate(e *Env) (Buy, error) { return e.buyForUpdate, nil }

// buyForUpdate keeps the row locked, and a connection in use, during the payment.
func (e *Env) buyForUpdate(ctx context.Context, c *Call) error {
	return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error {
		stock, err := tx.StockForUpdate(ctx, c.Item)
		if err != nil {
			return err
		}
		ordered, err := tx.Ordered(ctx, c.Item, c.User)
		switch {
		case err != nil:
			return err
		case ordered:
			return ErrSecond
		case stock <= 0:
			return ErrSoldOut
		}
		if err := c.at(ctx, Read); err != nil {
			return err
		}
		if err := e.Pay(ctx); err != nil {
			return err
		}
		return write(ctx, tx, c, stock-1)
	})
}

// openEarlyUnlock releases a correct lock too early: at the end of a function inside the transaction. The next holder reads
// before the commit, so it reads the old stock.
func openEarlyUnlock(e *Env) (Buy, error) {
	locks, err := e.openLocks()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		under, hold, err := locks.Lock(ctx, itemKey(c), lockmw.WithWait(c.Patience))
		if err != nil {
			return asOurs(err)
		}
		defer hold.Unlock()
		v, err := e.look(under, c)
		if err != nil {
			return err
		}
		if err := e.Pay(under); err != nil {
			return err
		}
		return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error {
			if err := write(under, tx, c, v.Stock-1); err != nil {
				return err
			}
			return errors.Join(hold.Unlock(), c.at(ctx, Unlocked))
		})
	}, nil
}

const optimisticTries = 5

// A comparison is the condition by which an optimistic write detects other writes since its read.
type comparison func(v books.View) (condition string, value any)

func byVersion(v books.View) (string, any) { return "version = ?", v.Version }
func byValue(v books.View) (string, any)   { return "stock = ?", v.Stock }

// openOptimistic retries optimistic writes, and takes a row lock only after several conflicts.
func openOptimistic(compare comparison) func(*Env) (Buy, error) {
	return func(e *Env) (Buy, error) {
		return func(ctx context.Context, c *Call) error {
			paid := false
			for range optimisticTries {
				v, err := e.look(ctx, c)
				if err != nil {
					return err
				}
				if !paid {
					if err := e.Pay(ctx); err != nil {
						return err
					}
					paid = true
				}
				switch err := e.writeIf(ctx, c, v, compare); {
				case !errors.Is(err, errOutrun):
					return err
				default:
					c.retried()
				}
			}
			return e.buyForUpdate(ctx, c)
		}, nil
	}
}

var errOutrun = errors.New("another call has written since the read")

func (e *Env) writeIf(ctx context.Context, c *Call, v books.View, compare comparison) error {
	condition, value := compare(v)
	return e.Books.Change(ctx, c.retried, func(tx *books.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE {items} SET stock = stock - 1, version = version + 1 WHERE id = ? AND `+condition, c.Item, value)
		if err != nil {
			return err
		}
		if n == 0 {
			return errOutrun
		}
		return tx.AddOrder(ctx, c.Item, c.User)
	})
}
