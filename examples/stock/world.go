package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/examples/stock/internal/memcached"
	"github.com/lockmw/go/examples/stock/internal/settings"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// A world has the resources that all ways share.
type world struct {
	settings.Settings

	name      string // of this run
	place     ways.Place
	redis     *redisserver.Server
	memcached *memcached.Server // nil if there is none
	books     *books.Books
	closers   []func() error
}

// open opens the resources of the ways.
func open(ctx context.Context, cfg settings.Settings) (_ *world, err error) {
	w := &world{Settings: cfg, name: "stock-" + strings.ToLower(rand.Text()[:10])}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.place = ways.Place{
		Database: cfg.Database,
		Tables:   strings.ReplaceAll(w.name, "-", "_") + "_",
		Payment:  cfg.Payment,
	}
	if err := w.openRedis(ctx); err != nil {
		return nil, err
	}
	if err := w.openBooks(ctx); err != nil {
		return nil, err
	}
	if err := w.openMemcached(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world) openRedis(ctx context.Context) error {
	var addrs []string
	if w.Redis != "" {
		addrs = []string{w.Redis}
	}
	server, err := redisserver.Open(ctx, addrs, "")
	if err != nil {
		return err
	}
	w.redis = server
	w.onClose(server.Close)
	one, ok := server.Client.(*redis.Client)
	if !ok {
		return fmt.Errorf("the Redis at %s is a Cluster, but this example needs a single server", w.Redis)
	}
	w.place.Redis = one.Options().Addr
	return nil
}

func (w *world) openBooks(ctx context.Context) error {
	if w.place.Database == "" {
		dir, err := os.MkdirTemp("", "stock-")
		if err != nil {
			return err
		}
		w.onClose(func() error { return os.RemoveAll(dir) })
		w.place.Database = "sqlite:" + filepath.Join(dir, "stock.db")
	}
	var err error
	if w.books, err = books.Open(ctx, w.place.Database, w.place.Tables); err != nil {
		return err
	}
	w.onClose(w.books.Close)
	if err := w.books.Create(ctx); err != nil {
		return err
	}
	w.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return w.books.Drop(ctx)
	})
	return nil
}

// openMemcached starts a Memcached if a way needs it and it is installed.
func (w *world) openMemcached(ctx context.Context) error {
	for _, way := range w.Ways {
		if !way.Memcached || w.memcached != nil {
			continue
		}
		server, err := memcached.Start(ctx)
		if errors.Is(err, memcached.ErrNotInstalled) {
			return nil
		}
		if err != nil {
			return err
		}
		w.memcached, w.place.Memcached = server, server.Addr()
		w.onClose(func() error { server.Close(); return nil })
	}
	return nil
}

func (w *world) onClose(f func() error) { w.closers = append(w.closers, f) }

// close undoes open, in reverse order.
func (w *world) close() error {
	var err error
	for len(w.closers) > 0 {
		last := len(w.closers) - 1
		err = errors.Join(err, w.closers[last]())
		w.closers = w.closers[:last]
	}
	return err
}

// at returns the place of a part of the run, with its own key prefix.
func (w *world) at(part string) ways.Place {
	p := w.place
	p.Name = w.name + "-" + part
	return p
}
