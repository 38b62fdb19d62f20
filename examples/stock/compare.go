package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/examples/internal/statusline"
	"github.com/lockmw/go/examples/stock/internal/crowd"
	"github.com/lockmw/go/examples/stock/internal/faults"
	"github.com/lockmw/go/examples/stock/internal/memcached"
	"github.com/lockmw/go/examples/stock/internal/report"
	"github.com/lockmw/go/examples/stock/internal/settings"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// compare runs all ways in turn. It reports whether a way broke a promise that it should keep.
func compare(ctx context.Context, cfg settings.Settings, stdout, stderr io.Writer) (broken bool, err error) {
	picture, err := newPicture(cfg.SVG)
	if err != nil {
		return false, err
	}
	defer picture.discard()
	w, err := open(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.close()) }()

	r := report.Report{
		Database: w.books.Database(), Redis: "embedded Redis",
		Users: cfg.Users, Clicks: cfg.Clicks, Items: cfg.Items, Stock: cfg.Stock, AtOnce: cfg.AtOnce,
	}
	if cfg.Redis != "" {
		r.Redis = "Redis at " + cfg.Redis
	}
	var status atomic.Value
	status.Store("opening")
	stop := statusline.Show(stderr, func() string { return status.Load().(string) })
	for i, way := range cfg.Ways {
		say := func(does string) {
			status.Store(fmt.Sprintf("%d of %d ways: %s %s", i+1, len(cfg.Ways), way.Name, does))
		}
		row, err := w.try(ctx, i, way, say)
		if err != nil {
			stop()
			return false, fmt.Errorf("%s: %w", way.Name, err)
		}
		r.Ways = append(r.Ways, row)
	}
	stop()
	if err := picture.save(&r); err != nil {
		return false, err
	}
	return r.Broken(), r.Write(stdout, cfg.JSON)
}

// try runs one way under load, and then its fault scripts.
func (w *world) try(ctx context.Context, n int, way ways.Way, say func(string)) (report.Row, error) {
	row := report.Row{Name: way.Name, Does: way.Does, Kept: way.Kept}
	if way.Memcached && w.memcached == nil {
		row.Skipped = memcached.ErrNotInstalled.Error()
		return row, nil
	}
	say("under load")
	if err := w.load(ctx, fmt.Sprintf("w%d", n), way, &row); err != nil {
		return row, err
	}
	for i, script := range faults.Of(way.Name) {
		say("while " + script.Name)
		scene, err := w.play(ctx, fmt.Sprintf("w%d-s%d", n, i), way, script)
		if err != nil {
			return row, err
		}
		row.Scripts = append(row.Scripts, scene)
	}
	return row, nil
}

// play plays one fault script.
func (w *world) play(ctx context.Context, part string, way ways.Way, script faults.Script) (scene report.Scene, err error) {
	scene.Name = script.Name
	place := w.at(part)
	defer func() { err = errors.Join(err, w.redis.Clean(place.Name)) }()
	facts, err := script.Perform(ctx, way, place, w.memcached)
	switch {
	case ctx.Err() != nil:
		return scene, ctx.Err()
	case errors.Is(err, errors.ErrUnsupported):
		scene.Skipped = err.Error()
		return scene, nil
	case err != nil:
		scene.Failed = oneLine(err)
		return scene, nil
	}
	scene.Facts = facts
	facts.Retries = 0
	scene.Seen = facts == script.Want
	return scene, nil
}

const (
	loadLease    = 10 * time.Second
	loadPatience = 30 * time.Second
)

// load lets the crowd buy and audits the books.
func (w *world) load(ctx context.Context, part string, way ways.Way, row *report.Row) (err error) {
	place := w.at(part)
	place.Lease = loadLease
	defer func() { err = errors.Join(err, w.redis.Clean(place.Name)) }()
	market, err := openMarket(ctx, w.Settings, way, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, market.close()) }()

	var t crowd.Tally
	stop := market.disturb(ctx, &t)
	err = t.Drive(ctx, w.Plan, market.shops, market.items, loadPatience)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if err := market.settle(ctx); err != nil {
		return err
	}
	if err := market.audit(ctx, row); err != nil {
		return err
	}
	row.AddLoad(&t)
	return nil
}
