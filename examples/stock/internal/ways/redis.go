package ways

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/stock/internal/books"
)

// inRedis returns the ways that keep stock and buyers in Redis and store orders in the books later.
func inRedis() []Way {
	return []Way{
		{Name: "lua-queue", Does: "one script in Redis, then a queue", Kept: true, Open: openScript, Offer: offerInRedis, Left: leftInRedis},
		{Name: "watch", Does: "WATCH, MULTI, EXEC", Kept: true, Open: openWatch, Offer: offerInRedis, Left: leftInRedis},
	}
}

// stockKey is the key of the remaining stock, and buyersKey that of the set of buyers.
func (e *Env) stockKey(item string) string  { return e.Name + ":stock:" + item }
func (e *Env) buyersKey(item string) string { return e.Name + ":buyers:" + item }

func offerInRedis(ctx context.Context, e *Env, item string, stock int) error {
	return e.Redis.Set(ctx, e.stockKey(item), stock, 0).Err()
}

func leftInRedis(ctx context.Context, e *Env, item string) (int, error) {
	return e.Redis.Get(ctx, e.stockKey(item)).Int()
}

// openWatch reads, and writes only if the keys have not changed since.
func openWatch(e *Env) (Buy, error) {
	return func(ctx context.Context, c *Call) error {
		if err := e.Pay(ctx); err != nil {
			return err
		}
		end := time.Now().Add(c.Patience)
		for {
			err := e.Redis.Watch(ctx, func(tx *redis.Tx) error { return e.reserveWatching(ctx, tx, c) },
				e.stockKey(c.Item), e.buyersKey(c.Item))
			switch {
			case err == nil:
				return e.store(ctx, c, Reserved)
			case !errors.Is(err, redis.TxFailedErr):
				return err
			case time.Now().After(end):
				return ErrBusy
			}
			c.retried()
		}
	}, nil
}

func (e *Env) reserveWatching(ctx context.Context, tx *redis.Tx, c *Call) error {
	stock, err := tx.Get(ctx, e.stockKey(c.Item)).Int()
	if err != nil {
		return err
	}
	ordered, err := tx.SIsMember(ctx, e.buyersKey(c.Item), c.User).Result()
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
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Decr(ctx, e.stockKey(c.Item))
		p.SAdd(ctx, e.buyersKey(c.Item), c.User)
		return nil
	})
	return err
}

// store stores an order in the books that Redis has counted. It may be called twice for the same order.
func (e *Env) store(ctx context.Context, c *Call, p Point) error {
	if err := c.at(ctx, p); err != nil {
		return err
	}
	err := e.Books.Change(ctx, c.retried, func(tx *books.Tx) error { return sellOne(ctx, tx, c) })
	if errors.Is(err, ErrSecond) {
		return nil
	}
	return err
}

var (
	//go:embed reserve.lua
	reserveText string
	//go:embed giveback.lua
	giveBackText string

	reserve  = redis.NewScript(reserveText)
	giveBack = redis.NewScript(giveBackText)
)

// reserveByScript reserves one item for the user atomically.
func (e *Env) reserveByScript(ctx context.Context, c *Call) error {
	answer, err := reserve.Run(ctx, e.Redis, []string{e.stockKey(c.Item), e.buyersKey(c.Item)}, c.User).Int()
	switch {
	case err != nil:
		return err
	case answer == 0:
		return ErrSoldOut
	case answer < 0:
		return ErrSecond
	}
	return c.at(ctx, Reserved)
}
