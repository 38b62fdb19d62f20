package main

import (
	"context"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// Every call of these waits for its turn, and is never tried again. What runs under a lock has the context of the
// lock, which ends if it is lost.

var wholeMarket = lockmw.Key("market", "all")

// Coarse has one lock for whatever touches the market, looks too if they do not share it.
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

// Fine locks the item only: what is done to other items goes on meanwhile. A look needs no lock: what it has seen may
// be sold a moment later, with a lock that is released or without.
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
