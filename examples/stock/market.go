package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/stock/internal/crowd"
	"github.com/lockmw/go/examples/stock/internal/report"
	"github.com/lockmw/go/examples/stock/internal/settings"
	"github.com/lockmw/go/examples/stock/internal/shop"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// A market has the shops that sell in one way, and their items.
type market struct {
	settings.Settings

	way   ways.Way
	env   *ways.Env
	shops []*shop.Shop
	items []string
}

func openMarket(ctx context.Context, cfg settings.Settings, way ways.Way, place ways.Place) (_ *market, err error) {
	env, err := ways.NewEnv(ctx, place)
	if err != nil {
		return nil, err
	}
	m := &market{Settings: cfg, way: way, env: env}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	for i := range cfg.Items {
		item := fmt.Sprintf("%s-%d", place.Name, i+1)
		if err := env.Books.Offer(ctx, item, cfg.Stock); err != nil {
			return nil, err
		}
		if way.Offer != nil {
			if err := way.Offer(ctx, env, item, cfg.Stock); err != nil {
				return nil, err
			}
		}
		m.items = append(m.items, item)
	}
	processes := 2
	if way.Alone {
		processes = 1
	}
	for range processes {
		s, err := shop.Open(ctx, shop.Spec{Place: place, Way: way.Name})
		if err != nil {
			return nil, err
		}
		m.shops = append(m.shops, s)
	}
	return m, nil
}

func (m *market) close() error {
	var err error
	for _, s := range m.shops {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, m.env.Close())
}

// disturb calls the way's Disturb repeatedly, if it has one, until stop is called.
func (m *market) disturb(ctx context.Context, t *crowd.Tally) (stop func() error) {
	if m.way.Disturb == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.keepDisturbing(ctx, t) }()
	return func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// keepDisturbing counts orders, not seconds, so that slow machines have as many disturbances.
func (m *market) keepDisturbing(ctx context.Context, t *crowd.Tally) error {
	const every = 5
	next := int64(every)
	for {
		if err := clock.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		if t.Sold.Load() < next {
			continue
		}
		next += every
		if err := m.way.Disturb(ctx, m.env); err != nil {
			return err
		}
	}
}

// settle waits until all sold items are in the books, or the books stop growing.
func (m *market) settle(ctx context.Context) error {
	if m.way.Left == nil {
		return nil
	}
	last, since := -1, time.Now()
	for {
		missing, err := m.missing(ctx)
		if err != nil || missing == 0 {
			return err
		}
		switch {
		case missing != last:
			last, since = missing, time.Now()
		case time.Since(since) > 10*time.Second:
			return nil // the audit reports them
		}
		if err := clock.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// missing returns the number of orders that the way has counted and that are not in the books.
func (m *market) missing(ctx context.Context) (n int, err error) {
	for _, item := range m.items {
		left, err := m.way.Left(ctx, m.env, item)
		if err != nil {
			return 0, err
		}
		a, err := m.env.Books.Audit(ctx, item, m.Stock)
		if err != nil {
			return 0, err
		}
		n += m.Stock - left - a.Sold
	}
	return n, nil
}

// audit adds the figures of the books to the row.
func (m *market) audit(ctx context.Context, row *report.Row) error {
	want := make([]map[string]bool, len(m.items)) // users by wanted item
	for _, c := range m.Plan.List(len(m.shops)) {
		if want[c.Item] == nil {
			want[c.Item] = make(map[string]bool)
		}
		want[c.Item][c.User] = true
	}
	for i, item := range m.items {
		a, err := m.env.Books.Audit(ctx, item, m.Stock)
		if err != nil {
			return err
		}
		row.Sold += a.Sold
		row.Oversold += a.Oversold
		row.Duplicates += a.Duplicates
		if m.way.Disturb == nil { // otherwise a call may have been told to retry and has not
			row.Unsold += max(0, min(m.Stock, len(want[i]))-a.Sold)
		}
	}
	return nil
}
