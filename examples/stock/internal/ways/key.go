package ways

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/idempotency"
)

// byKey returns the ways with idempotency keys. A key gives each further click of a user the receipt of the first one, so nothing
// else prevents duplicate orders. A condition in SQL prevents overselling.
func byKey() []Way {
	again := func(*Env, *Call) idempotency.Policy { return idempotency.RunAgain }
	refuse := func(*Env, *Call) idempotency.Policy { return idempotency.Refuse }
	return []Way{
		{Name: "key-again", Does: "idempotency key, RunAgain", Kept: true, Open: openKey(again)},
		{Name: "key-refuse", Does: "idempotency key, Refuse", Kept: true, Open: openKey(refuse)},
		{Name: "key-recover", Does: "idempotency key, Recover asks the database", Kept: true, Open: openKey(askBooks)},
		{Name: "key-sqlstore", Does: "idempotency key in SQL, RunAgain", Kept: true, Open: openKeyInBooks},
	}
}

// An intent is the request, which must be the same in all clicks with a key.
type intent struct{ Item, User string }

// A receipt is the answer that is recorded.
type receipt struct{ ID string }

// keyWait is how long a click waits for an earlier click with the same key.
const keyWait = 30 * time.Second

// openKey keeps the records in Redis. The order and the record are stored one after the other, so the policy decides what a click
// gets if the process dies in between.
func openKey(policy func(*Env, *Call) idempotency.Policy) func(*Env) (Buy, error) {
	return func(e *Env) (Buy, error) {
		once, err := e.openOnce()
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, c *Call) error {
			return e.buyOnce(ctx, c, once, policy(e, c), e.Books.Change)
		}, nil
	}
}

// openKeyInBooks keeps the records in the database, and marks them as done in the transaction of the order. So RunAgain is safe.
func openKeyInBooks(e *Env) (Buy, error) {
	once, err := e.openOnce(idempotency.WithStore(e.Books.Records()))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Call) error {
		return e.buyOnce(ctx, c, once, idempotency.RunAgain, e.Books.ChangeInRun)
	}, nil
}

func (e *Env) openOnce(opts ...idempotency.Option) (*idempotency.Runner, error) {
	locks, err := e.openLocks()
	if err != nil {
		return nil, err
	}
	return idempotency.New(locks, append(opts, idempotency.WithWait(keyWait))...), nil
}

// askBooks answers for an earlier click that left no outcome: the order is in the books, or the click did nothing.
func askBooks(e *Env, c *Call) idempotency.Policy {
	return idempotency.Recover(func(ctx context.Context, _ idempotency.Unfinished) (idempotency.Answer, error) {
		switch id, err := e.Books.Receipt(ctx, c.Item, c.User); {
		case err != nil:
			return idempotency.Answer{}, err
		case id == "":
			return idempotency.Answer{}, idempotency.ErrNotDone
		default:
			return idempotency.Result(receipt{id})
		}
	})
}

// buyOnce sells under the key of the call, or repeats the first answer.
func (e *Env) buyOnce(ctx context.Context, c *Call, once *idempotency.Runner, p idempotency.Policy, change books.Changer) error {
	key := idempotency.Key{Scope: c.User, ID: c.Key}
	c.Replayed = true
	r, err := idempotency.Do(ctx, once, key, intent{c.Item, c.User}, p, func(ctx context.Context, _ intent) (receipt, error) {
		c.Replayed = false
		r, err := e.sellWithReceipt(ctx, c, change)
		if errors.Is(err, ErrSoldOut) {
			idempotency.NotDone(ctx) // a later click may buy what another user returns
		}
		return r, err
	})
	if err != nil {
		return asKeyed(err)
	}
	c.Receipt = r.ID
	return c.at(ctx, Recorded)
}

// sellWithReceipt does not check whether the user has an order.
func (e *Env) sellWithReceipt(ctx context.Context, c *Call, change books.Changer) (r receipt, err error) {
	if err := c.at(ctx, Acquired); err != nil {
		return r, err
	}
	v, err := e.Books.View(ctx, c.Item, c.User)
	switch {
	case err != nil:
		return r, err
	case v.Stock <= 0:
		return r, ErrSoldOut
	}
	if err := e.Pay(ctx); err != nil {
		return r, err
	}
	if ctx, err = c.send(ctx); err != nil {
		return r, err
	}
	r.ID = rand.Text()
	err = change(ctx, c.retried, func(tx *books.Tx) error {
		if err := tx.AddOrderWithReceipt(ctx, c.Item, c.User, r.ID); err != nil {
			return err
		}
		return takeOne(ctx, tx, c)
	})
	if err != nil {
		return r, err
	}
	return r, c.at(ctx, Written)
}

// asKeyed converts errors of idempotency to the errors of the other ways.
func asKeyed(err error) error {
	switch {
	case errors.Is(err, idempotency.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.Is(err, idempotency.ErrDone):
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	case errors.Is(err, idempotency.ErrNotRecorded), errors.Is(err, idempotency.ErrSuperseded):
		return fmt.Errorf("%w, and a later click has begun: %w", ErrLost, err)
	}
	return asOurs(err)
}
