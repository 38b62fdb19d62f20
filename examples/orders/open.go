package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// A world is what the sales share.
type world struct {
	config
	dir    string
	redis  *redisServer
	tracer trace.TracerProvider
}

// A sale is an open shop: database, locks, workers and web server.
type sale struct {
	*shop
	url     string
	slowest *slowest
	closers []func() error
}

// open opens a shop that listens at addr.
func (w *world) open(ctx context.Context, addr string, locked bool) (_ *sale, err error) {
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
	locks, err := w.openLocks(name, locked, s)
	if err != nil {
		return nil, err
	}
	tasks := asynq.NewClient(w.redis.asynq())
	s.onClose(tasks.Close)
	tracer := trace.TracerProvider(noop.NewTracerProvider())
	if locked {
		tracer = w.tracer
	}
	s.shop = newShop(st, locks, tasks, name, tracer)

	workers, handler := s.workers(w.redis.asynq())
	if err := workers.Start(handler); err != nil {
		return nil, err
	}
	s.onClose(func() error { workers.Shutdown(); return nil })

	s.serve(listener)
	return s, nil
}

// serve answers requests until the sale is closed.
func (s *sale) serve(listener net.Listener) {
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // somebody is still there, and has had the time to leave
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
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

func (w *world) openLocks(name string, locked bool, s *sale) (lockmw.Locker, error) {
	s.onClose(func() error { return w.redis.forget(name) })
	if !locked {
		return lockmw.LockerFunc(noLock), nil
	}
	locks, err := lockmw.New(w.redis.client,
		lockmw.WithPrefix(name),
		lockmw.WithLease(10*time.Second),
		lockmw.WithObserver(tracing.New(tracing.WithTracerProvider(w.tracer))),
		lockmw.WithObserver(s.slowest.observer()))
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

// reachable names a listener's address for this machine.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}
