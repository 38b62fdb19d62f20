package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/examples/internal/statusline"
)

// compare runs every way under every load. It reports whether a guarded way lost money or items, or sold one twice.
func compare(ctx context.Context, cfg settings, stdout, stderr io.Writer) (broken bool, err error) {
	picture, err := openPicture(cfg.svg) // fails before the long runs
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, picture.discard()) }()
	server, err := redisserver.Open(ctx, cfg.redis, "")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	r := report{
		Redis: describe(ctx, server), Embedded: server.Embedded(), Processors: runtime.GOMAXPROCS(0), Seconds: cfg.length.Seconds(),
	}
	if err := runAll(ctx, cfg, server, &r, stderr); err != nil {
		return false, err
	}
	if err := r.print(stdout, cfg.json); err != nil {
		return false, err
	}
	return r.broken(), picture.write(&r)
}

func runAll(ctx context.Context, cfg settings, server *redisserver.Server, r *report, stderr io.Writer) error {
	var running atomic.Pointer[cell]
	stop := statusline.Show(stderr, func() string {
		if c := running.Load(); c != nil {
			return c.progress()
		}
		return "starting"
	})
	defer stop()
	total := len(cfg.loads) * len(cfg.ways)
	for _, l := range cfg.loads {
		for _, w := range cfg.ways {
			c := &cell{load: l, way: w, length: cfg.length, server: server}
			c.title = fmt.Sprintf("%d of %d: %s, %s", len(r.Cells)+1, total, l.words(), w.title)
			running.Store(c)
			result, err := c.run(ctx)
			if err != nil {
				return err
			}
			r.Cells = append(r.Cells, result)
		}
	}
	return nil
}
