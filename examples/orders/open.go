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

	"github.com/lockmw/go/lockmw"
)

// A world is what the sales share.
type world struct {
	config
	dir       string
	redis     *redisServer
	telemetry *telemetry
}

// A sale is an open shop: database, locks, workers and web server.
type sale struct {
	*shop
	url     string
	slowest *slowest
	closers []func() error
}

// open opens a shop that listens at addr.
func (w *world) open(ctx context.Context, addr string, c conditions) (_ *sale, err error) {
	s := &sale{slowest: newSlowest(5)}
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
	s.url = "http://" + reachable(listener.Addr())

	name := "orders-" + strings.ToLower(rand.Text()[:10])
	st, err := w.openStore(ctx, name, s)
	if err != nil {
		return nil, err
	}
	locks, err := w.openLocks(name, c, s)
	if err != nil {
		return nil, err
	}
	tasks := asynq.NewClient(w.redis.asynq())
	s.onClose(tasks.Close)
	s.shop = newShop(st, locks, tasks, name, c)
	if c.locked {
		s.tracer = w.telemetry.tracer
		if w.telemetry.meter != nil {
			s.meter = w.telemetry.meter
		}
	}

	workers, handler := s.workers(w.redis.asynq())
	if err := workers.Start(handler); err != nil {
		return nil, err
	}
	s.onClose(func() error { workers.Shutdown(); return nil })

	stop := serveHTTP(listener, s.routes())
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return stop(ctx)
	})
	return s, nil
}

func (w *world) openStore(ctx context.Context, name string, s *sale) (*store, error) {
	dir := filepath.Join(w.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := openStore(ctx, dir)
	if err != nil {
		return nil, err
	}
	s.onClose(st.close)
	items := make([]string, w.items)
	for i := range items {
		items[i] = itemName(i)
	}
	err = st.offer(ctx, items, w.stock)
	return st, err
}

func (w *world) openLocks(name string, c conditions, s *sale) (lockmw.Locker, error) {
	s.onClose(func() error { return w.redis.forget(name) })
	if !c.locked {
		return lockmw.LockerFunc(noLock), nil
	}
	opts := []lockmw.ClientOption{
		lockmw.WithPrefix(name),
		lockmw.WithLease(10 * time.Second),
		lockmw.WithObserver(w.telemetry.observer()),
		lockmw.WithObserver(s.slowest.observer()),
	}
	if c.observer != nil {
		opts = append(opts, lockmw.WithObserver(c.observer))
	}
	locks, err := lockmw.New(w.redis.client, opts...)
	if err != nil {
		return nil, err
	}
	s.onClose(locks.Close)
	return locks, nil
}

// noLock is a lock that everybody gets at once. Its token never refuses a write.
func noLock(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	ctx, hold := lockmw.NewHold(ctx, key, 0, func(context.Context) error { return nil })
	return ctx, hold, nil
}

func (s *sale) onClose(f func() error) { s.closers = append(s.closers, f) }

// close ends what open began, in the opposite order.
func (s *sale) close() error {
	var err error
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		err = errors.Join(err, s.closers[last]())
		s.closers = s.closers[:last]
	}
	return err
}
