package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A watched uses WATCH, command by command as in chapter 4: a seller watches the inventory, a buyer the whole market and its
// own account. If a watched key changes before EXEC, the transaction does nothing and must be retried.
type watched struct{ *market }

// touch makes a purchase disturb the watchers of the market on miniredis, where a ZREM does not count as a change of a
// watched key.
func (w watched) touch(ctx context.Context, p redis.Pipeliner, o offer) {
	if w.embedded {
		p.ZAdd(ctx, w.offers(), redis.Z{Score: float64(o.price), Member: o.member()})
	}
}

func (w watched) list(ctx context.Context, o offer) (outcome, error) {
	out := gone
	err := w.rdb.Watch(ctx, func(tx *redis.Tx) error {
		owned, err := tx.SIsMember(ctx, w.inventory(o.seller), o.item).Result()
		if err != nil || !owned {
			return err
		}
		out = done
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			w.queueListing(ctx, p, o)
			return nil
		})
		return err
	}, w.inventory(o.seller))
	return settled(out, err)
}

func (w watched) buy(ctx context.Context, o offer, buyer string) (outcome, error) {
	out := gone
	err := w.rdb.Watch(ctx, func(tx *redis.Tx) error {
		price, buyers := tx.ZScore(ctx, w.offers(), o.member()), tx.HGet(ctx, w.account(buyer), funds)
		var err error
		if out, err = w.check(o, price, buyers); err != nil || out != done {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			w.touch(ctx, p, o)
			w.queuePurchase(ctx, p, o, buyer)
			return nil
		})
		return err
	}, w.offers(), w.account(buyer))
	return settled(out, err)
}

// settled separates a disturbed transaction from a failed one.
func settled(out outcome, err error) (outcome, error) {
	if errors.Is(err, redis.TxFailedErr) {
		return disturbed, nil
	}
	return out, err
}
