package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/internal/statusline"
	"github.com/lockmw/go/examples/orders/internal/crowd"
	"github.com/lockmw/go/examples/orders/internal/figures"
)

// compare runs the sale without and with locks, and prints both results.
func (w *world) compare(
	ctx context.Context, sale func(locked bool) conditions, stdout, stderr io.Writer,
) (int, error) {
	clicks := crowd.Plan(w.Settings)
	unlocked, err := w.run(ctx, clicks, sale(false), stderr)
	if err != nil {
		return 0, err
	}
	locked, err := w.run(ctx, clicks, sale(true), stderr)
	if err != nil {
		return 0, err
	}
	if err := figures.Report(stdout, w.Settings, unlocked, locked); err != nil {
		return 0, err
	}
	if locked.Broken() {
		return exitBroken, nil
	}
	return exitOK, nil
}

// run runs one sale from the first click to the last parcel.
func (w *world) run(ctx context.Context, clicks []crowd.Click, c conditions, stderr io.Writer) (r figures.Result, err error) {
	s, err := w.open(ctx, "127.0.0.1:0", c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	var t crowd.Tally
	title := "without locks"
	if c.locked {
		title = "with locks"
	}
	stop := statusline.Show(stderr, func() string {
		return fmt.Sprintf("%s: %d of %d clicks answered, %d of %d deliveries made",
			title, t.Answered.Load(), len(clicks), s.counts.Delivered.Load(), s.counts.Announced.Load())
	})
	defer stop()
	if err := t.Drive(ctx, s.url, clicks); err != nil {
		return r, err
	}
	if err := s.drain(ctx); err != nil {
		return r, err
	}
	audit, err := s.books.Audit(ctx, w.Stock)
	if err != nil {
		return r, err
	}
	return figures.NewResult(&t, audit, &s.counts, s.slowest.List()), nil
}

// drain waits until all orders are shipped and the workers are idle, or make no progress any more.
func (s *sale) drain(ctx context.Context) error {
	last, since := int64(-1), time.Now()
	for {
		unshipped, err := s.books.Unshipped(ctx)
		if err != nil {
			return err
		}
		patience := 10 * time.Second // after that, Redis must have lost duplicate tasks of shipped orders
		if unshipped > 0 {
			patience = time.Minute // a fail-over may take this long
		}
		done := s.counts.Delivered.Load()
		switch {
		case unshipped == 0 && done >= s.counts.Announced.Load():
			return nil
		case done != last:
			last, since = done, time.Now()
		case time.Since(since) > patience:
			return nil // the audit reports missing parcels
		}
		if err := clock.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
