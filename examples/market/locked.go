package main

import (
	"context"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// With these guards every call waits for its turn and never retries. Work under a lock has the lock's context, which ends
// if the lock is lost.

var wholeMarket = lockmw.Key("market", "all")

// A coarse has one lock for the whole market. Looks also take it, either exclusively or shared.
type coarse struct {
	*market
	write, read lockmw.Locker
}

func newCoarse(m *market, locks *lockmw.Client) guard { return coarse{m, locks, locks} }

func newShared(m *market, locks *lockmw.Client) guard {
	rw := rwlock.New(locks)
	return coarse{m, rw, rw.RLocker()}
}

func (c coarse) list(ctx context.Context, o offer) (out outcome, err error) {
	err = lockmw.Do(ctx, c.write, wholeMarket, func(ctx context.Context) (err error) {
		out, err = c.market.list(ctx, o)
		return err
	})
	return out, err
}

func (c coarse) look(ctx context.Context, price int64) (o offer, found bool, err error) {
	err = lockmw.Do(ctx, c.read, wholeMarket, func(ctx context.Context) (err error) {
		o, found, err = c.market.look(ctx, price)
		return err
	})
	return o, found, err
}

func (c coarse) buy(ctx context.Context, o offer, buyer string) (out outcome, err error) {
	err = lockmw.Do(ctx, c.write, wholeMarket, func(ctx context.Context) (err error) {
		out, err = c.market.buy(ctx, o, buyer)
		return err
	})
	return out, err
}

// A fine locks one item only, so that calls for other items run at the same time. A look needs no lock: the item that it
// finds may be sold a moment later in any case.
type fine struct {
	*market
	locks lockmw.Locker
}

func newFine(m *market, locks *lockmw.Client) guard { return fine{m, locks} }

func (f fine) list(ctx context.Context, o offer) (out outcome, err error) {
	err = lockmw.Do(ctx, f.locks, lockmw.Key("item", o.item), func(ctx context.Context) (err error) {
		out, err = f.market.list(ctx, o)
		return err
	})
	return out, err
}

func (f fine) buy(ctx context.Context, o offer, buyer string) (out outcome, err error) {
	err = lockmw.Do(ctx, f.locks, lockmw.Key("item", o.item), func(ctx context.Context) (err error) {
		out, err = f.buyAdding(ctx, o, buyer)
		return err
	})
	return out, err
}
