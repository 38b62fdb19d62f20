package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/examples/internal/redisserver"
	"github.com/lockmw/go/examples/internal/web"
	"github.com/lockmw/go/examples/orders/internal/books"
	"github.com/lockmw/go/examples/orders/internal/crowd"
	"github.com/lockmw/go/examples/orders/internal/figures"
	"github.com/lockmw/go/examples/orders/internal/settings"
	"github.com/lockmw/go/examples/orders/internal/telemetry"
	"github.com/lockmw/go/lockmw"
)

// A world has the resources that all sales share.
type world struct {
	settings.Settings

	dir       string
	redis     *redisserver.Server
	telemetry *telemetry.Telemetry
}

// A sale is an open shop: database, locks, workers and web server.
type sale struct {
	*shop
	url     string
	slowest *figures.Slowest
	closers []func() error
}

// open opens a shop that listens at addr.
func (w *world) open(ctx context.Context, addr string, c conditions) (_ *sale, err error) {
	s := &sale{slowest: figures.NewSlowest(5)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s.onClose(func() error {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	s.url = "http://" + web.Host(listener.Addr())

	name := "orders-" + strings.ToLower(rand.Text()[:10])
	b, err := w.openBooks(ctx, name, s)
	if err != nil {
		return nil, err
	}
	locks, err := w.openLocks(name, c, s)
	if err != nil {
		return nil, err
	}
	queue := asynq.NewClient(w.redis.Asynq())
	s.onClose(queue.Close)
	s.shop = newShop(b, locks, queue, name, c)
	if c.locked {
		s.tracer = w.telemetry.Tracer
		if w.telemetry.Meter != nil {
			s.meter = w.telemetry.Meter
		}
	}

	workers, handler := s.workers(w.redis.Asynq())
	if err := workers.Start(handler); err != nil {
		return nil, err
	}
	s.onClose(func() error { workers.Shutdown(); return nil })
	s.onClose(inBackground(s.remind))

	stop := web.Serve(listener, s.handler())
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return stop(ctx)
	})
	return s, nil
}

func (w *world) openBooks(ctx context.Context, name string, s *sale) (*books.Books, error) {
	dir := filepath.Join(w.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	b, err := books.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	s.onClose(b.Close)
	items := make([]string, w.Items)
	for i := range items {
		items[i] = crowd.ItemName(i)
	}
	err = b.Offer(ctx, items, w.Stock)
	return b, err
}

func (w *world) openLocks(name string, c conditions, s *sale) (lockmw.Locker, error) {
	s.onClose(func() error { return w.redis.Clean(name) })
	if !c.locked {
		return lockmw.LockerFunc(noLock), nil
	}
	opts := []lockmw.ClientOption{
		lockmw.WithPrefix(name),
		lockmw.WithLease(10 * time.Second),
		lockmw.WithObserver(w.telemetry.Observer()),
		lockmw.WithObserver(s.slowest.Observer()),
	}
	if c.observer != nil {
		opts = append(opts, lockmw.WithObserver(c.observer))
	}
	locks, err := lockmw.New(w.redis.Client, opts...)
	if err != nil {
		return nil, err
	}
	s.onClose(locks.Close)
	return locks, nil
}

// noLock grants every lock immediately. All holds have the same token, so that no write is refused.
func noLock(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return nil })
	return ctx, hold, nil
}

// inBackground runs f until stop is called. stop returns the error of f.
func inBackground(f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (s *sale) onClose(f func() error) { s.closers = append(s.closers, f) }

// close undoes open, in reverse order.
func (s *sale) close() error {
	var err error
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		err = errors.Join(err, s.closers[last]())
		s.closers = s.closers[:last]
	}
	return err
}
