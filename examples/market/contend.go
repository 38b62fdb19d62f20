package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/lockmw/go/examples/internal/redisserver"
)

// A cell is one way under one load: a separate market in which sellers and buyers contend for some time.
type cell struct {
	load
	way    *way
	title  string // for the progress line
	length time.Duration
	server *redisserver.Server

	listed, bought  atomic.Int64
	retries, missed atomic.Int64 // of purchases: disturbed tries, and offers that were already sold
	minted          atomic.Int64 // items created so far
}

// run runs the contenders and audits the result.
func (c *cell) run(ctx context.Context) (_ result, err error) {
	name := "market-" + strings.ToLower(rand.Text()[:10])
	all := &market{name: name, rdb: c.server.Client}
	defer func() { err = cmp.Or(err, c.clean(all)) }() // the first error explains the others
	if err := c.found(ctx, all); err != nil {
		return result{}, err
	}
	contenders, err := c.open(ctx, name)
	defer func() {
		for _, x := range contenders {
			err = cmp.Or(err, x.close())
		}
	}()
	if err != nil {
		return result{}, err
	}
	waits, elapsed, err := c.contend(ctx, contenders)
	if err != nil {
		return result{}, err
	}
	audit, err := c.audit(ctx, all)
	if err != nil {
		return result{}, err
	}
	return newResult(c, elapsed, waits, audit), nil
}

func (c *cell) progress() string {
	return fmt.Sprintf("%s: %d listed, %d bought, %d retries", c.title, c.listed.Load(), c.bought.Load(), c.retries.Load())
}

func seller(i int) string { return fmt.Sprintf("seller-%d", i+1) }
func buyer(i int) string  { return fmt.Sprintf("buyer-%d", i+1) }

// users returns the names of all accounts.
func (c *cell) users() (names []string) {
	for i := range c.sellers {
		names = append(names, seller(i))
	}
	for i := range c.buyers {
		names = append(names, buyer(i))
	}
	return names
}

// found opens all accounts and puts the first offers into the market.
func (c *cell) found(ctx context.Context, m *market) error {
	_, err := m.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, user := range c.users() {
			p.HSet(ctx, m.account(user), funds, startFunds)
		}
		for i := range offersBefore {
			o := offer{newItem(), seller(i % c.sellers), somePrice()}
			p.ZAdd(ctx, m.offers(), redis.Z{Score: float64(o.price), Member: o.member()})
		}
		return nil
	})
	c.minted.Store(offersBefore)
	return err
}

func (c *cell) open(ctx context.Context, name string) (contenders []*contender, err error) {
	for range c.sellers + c.buyers {
		x, err := c.way.newContender(ctx, name, c.server)
		contenders = append(contenders, x)
		if err != nil {
			return contenders, err
		}
	}
	return contenders, nil
}

// contend lets the first contenders sell and the others buy. It returns the waits of purchases.
func (c *cell) contend(ctx context.Context, contenders []*contender) (*hdrhistogram.Histogram, time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	open, closeMarket := context.WithDeadline(ctx, start.Add(c.length)) // calls that began before it still finish
	defer closeMarket()
	waits := make([]*hdrhistogram.Histogram, c.buyers)
	for i, x := range contenders {
		if i < c.sellers {
			group.Go(func() error { return c.sell(ctx, open, x, seller(i)) })
			continue
		}
		i -= c.sellers
		waits[i] = newWaits()
		group.Go(func() error { return c.shop(ctx, open, x, buyer(i), waits[i]) })
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	all := newWaits()
	for _, w := range waits {
		all.Merge(w)
	}
	return all, time.Since(start), nil
}

const stockUp = 500 // items that a seller receives together

// sell lists items one by one.
func (c *cell) sell(ctx, open context.Context, x *contender, name string) error {
	var stock []any
	for open.Err() == nil {
		if len(stock) == 0 {
			for range stockUp {
				stock = append(stock, newItem())
			}
			if err := x.market.rdb.SAdd(ctx, x.market.inventory(name), stock...).Err(); err != nil {
				return err
			}
			c.minted.Add(stockUp)
		}
		item, _ := stock[0].(string)
		switch out, err := x.list(ctx, offer{item, name, somePrice()}); {
		case err != nil:
			return err
		case out == gone:
			return fmt.Errorf("%s has no %s to list", name, item)
		case out == done:
			c.listed.Add(1)
			stock = stock[1:]
		}
	}
	return ctx.Err()
}

// shop buys items one by one. The wait of a purchase begins with the first offer that it sees, and continues if that offer
// is gone.
func (c *cell) shop(ctx, open context.Context, x *contender, name string, waits *hdrhistogram.Histogram) error {
	for open.Err() == nil {
		var start time.Time
		for out := gone; out != done && open.Err() == nil; {
			o, found, err := x.look(ctx, somePrice())
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			if start.IsZero() {
				start = time.Now()
			}
			if out, err = c.try(ctx, open, x, o, name); err != nil {
				return err
			}
			if out == done {
				c.bought.Add(1)
				record(waits, time.Since(start))
			}
		}
	}
	return ctx.Err()
}

// try buys one offer and retries as long as it is disturbed.
func (c *cell) try(ctx, open context.Context, x *contender, o offer, name string) (outcome, error) {
	for {
		out, err := x.buy(ctx, o, name)
		switch {
		case err != nil:
			return out, err
		case out == gone:
			c.missed.Add(1)
		case out == disturbed:
			c.retries.Add(1)
			if open.Err() == nil {
				continue
			}
		}
		return out, nil
	}
}

// Waits are in microseconds, with three digits.
const longest = int64(time.Hour / time.Microsecond)

func newWaits() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }

func record(waits *hdrhistogram.Histogram, d time.Duration) {
	_ = waits.RecordValue(min(d.Microseconds(), longest)) // cannot fail below the maximum
}

// clean removes the keys of the cell.
func (c *cell) clean(m *market) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	keys := []string{m.offers()}
	for _, user := range c.users() {
		keys = append(keys, m.account(user), m.inventory(user))
	}
	return errors.Join(m.rdb.Unlink(ctx, keys...).Err(), c.server.Clean(m.name))
}
