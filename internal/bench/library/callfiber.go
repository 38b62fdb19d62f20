package library

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	fiberredis "github.com/gofiber/storage/redis/v3"
	"github.com/redis/go-redis/v9"
)

var (
	fiberLibrary        = Library{Name: "fiber", Calls: openFiber, Sends: []string{"set", "get"}}
	fiberRedsyncLibrary = Library{
		Name: "fiber-redsync", Calls: openFiberRedsync, Sends: []string{"set", "get"}, SentByScripts: []string{"get"},
	}
	bareFiberLibrary = Library{Name: "fiber-bare", Calls: openBareFiber, Baseline: true}
)

// fiberSite is the idempotency middleware of fiber, with answers in fiber's storage for Redis. By default its lock is in the
// process. It compares neither users nor bodies.
type fiberSite struct {
	*site
	rdb  *redis.Client
	lock *fiberLock // nil: the default
}

func openFiber(c Config, work Work) (Caller, error) { return openFiberWith(c, work, nil) }

// openFiberRedsync also locks in Redis, which several processes need.
func openFiberRedsync(c Config, work Work) (Caller, error) {
	locker, err := openRedsync(c)
	if err != nil {
		return nil, err
	}
	return openFiberWith(c, work, &fiberLock{locker: locker})
}

func openFiberWith(c Config, work Work, lock *fiberLock) (Caller, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	config := idempotency.Config{Storage: fiberredis.NewFromConnection(rdb), KeyHeader: keyHeader, Lifetime: kept}
	if lock != nil {
		config.Lock = lock
	}
	app := fiber.New()
	app.Use(idempotency.New(config))
	s, err := openFiberSite(app, work)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &fiberSite{s, rdb, lock}, nil
}

// Close implements Caller.
func (f *fiberSite) Close() error {
	err := errors.Join(f.site.Close(), f.rdb.Close())
	if f.lock != nil {
		err = errors.Join(err, f.lock.locker.Close())
	}
	return err
}

// openBareFiber is the same server without the middleware: it repeats the work of each call.
func openBareFiber(_ Config, work Work) (Caller, error) { return openFiberSite(fiber.New(), work) }

func openFiberSite(app *fiber.App, work Work) (*site, error) {
	app.Post("/orders", func(c fiber.Ctx) error {
		// fiber uses the memory of a request again.
		answer, err := work(Call{
			Scope: strings.Clone(c.Get(scopeHeader)), ID: strings.Clone(c.Get(keyHeader)), Body: bytes.Clone(c.Body()),
		})
		if err != nil {
			return err
		}
		return c.Send(answer)
	})
	serve := func(l net.Listener) error {
		return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}
	return openSite(serve, app.ShutdownWithContext)
}

// A fiberLock is a lock of redsync for fiber.
type fiberLock struct {
	locker Locker
	holds  sync.Map // by key
}

// Lock implements idempotency.Locker.
func (l *fiberLock) Lock(key string) error {
	hold, err := l.locker.Lock(context.Background(), "lock:"+key)
	if err == nil {
		l.holds.Store(key, hold)
	}
	return err
}

// Unlock implements idempotency.Locker.
func (l *fiberLock) Unlock(key string) error {
	hold, ok := l.holds.LoadAndDelete(key)
	if !ok {
		return errNotHeld
	}
	return hold.(Hold).Unlock()
}
