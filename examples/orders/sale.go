package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// compare runs the sale without and with locks.
func (w *world) compare(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	clicks := plan(w.config)
	unlocked, err := w.run(ctx, clicks, false, stderr)
	if err != nil {
		return 0, err
	}
	locked, err := w.run(ctx, clicks, true, stderr)
	if err != nil {
		return 0, err
	}
	if err := report(stdout, w.config, unlocked, locked); err != nil {
		return 0, err
	}
	if locked.broken() {
		return exitBroken, nil
	}
	return exitOK, nil
}

// run holds one sale from the first click to the last parcel.
func (w *world) run(ctx context.Context, clicks []click, locked bool, stderr io.Writer) (r result, err error) {
	s, err := w.open(ctx, "127.0.0.1:0", usual(locked))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	var t tally
	title := "without locks"
	if locked {
		title = "with locks"
	}
	stop := showProgress(stderr, func() string {
		return fmt.Sprintf("%s: %d of %d clicks answered, %d of %d deliveries made",
			title, t.requests.Load(), len(clicks), s.counts.delivered.Load(), s.counts.announced.Load())
	})
	defer stop()
	if err := drive(ctx, s.url, clicks, &t); err != nil {
		return r, err
	}
	if err := s.drain(ctx); err != nil {
		return r, err
	}
	books, err := s.store.audit(ctx, w.stock)
	if err != nil {
		return r, err
	}
	return newResult(&t, books, s), nil
}

// drain waits until the workers have nothing left to do, or get nowhere any more.
func (s *sale) drain(ctx context.Context) error {
	const patience = 10 * time.Second
	last, since := int64(-1), time.Now()
	for {
		done := s.counts.delivered.Load()
		switch {
		case done >= s.counts.announced.Load():
			return nil
		case done != last:
			last, since = done, time.Now()
		case time.Since(since) > patience:
			return nil // the audit finds what is missing
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
