package ways

import (
	"context"
	"errors"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/stock/internal/books"
)

// A Place has the addresses and names that a way uses. It is sent to the shops' processes.
type Place struct {
	Name      string // prefix of all keys in Redis, and name of the queue
	Database  string // the URL
	Tables    string // prefix of table names
	Redis     string // host:port
	Memcached string // host:port, or ""
	Lease     time.Duration
	Payment   time.Duration // duration of a payment
}

// An Env has the connections of a way.
type Env struct {
	Place

	Books     *books.Books
	Redis     *redis.Client
	Memcached *memcache.Client // may be nil

	// Stopper returns a function that blocks background work for a user. A shop sets it.
	Stopper func(user string) func(ctx context.Context) error

	closers []func() error
}

// NewEnv opens all connections.
func NewEnv(ctx context.Context, p Place) (*Env, error) {
	e := &Env{Place: p}
	var err error
	if e.Books, err = books.Open(ctx, p.Database, p.Tables); err != nil {
		return nil, err
	}
	e.OnClose(e.Books.Close)
	e.Redis = redis.NewClient(&redis.Options{Addr: p.Redis, DialTimeout: time.Second, PoolSize: 64})
	e.Redis.AddHook(LostReplies{})
	e.OnClose(e.Redis.Close)
	if p.Memcached != "" {
		e.Memcached = memcache.New(p.Memcached)
		e.Memcached.MaxIdleConns = 64
		e.Memcached.Timeout = 5 * time.Second
		e.OnClose(e.Memcached.Close)
	}
	return e, nil
}

// OnClose registers f for Close, which calls the last one first.
func (e *Env) OnClose(f func() error) { e.closers = append(e.closers, f) }

// Close closes everything that was opened.
func (e *Env) Close() error {
	var err error
	for len(e.closers) > 0 {
		last := len(e.closers) - 1
		err = errors.Join(err, e.closers[last]())
		e.closers = e.closers[:last]
	}
	return err
}

// Asynq returns the connection options of Redis for asynq, which uses its own connections.
func (e *Env) Asynq() asynq.RedisConnOpt { return asynq.RedisClientOpt{Addr: e.Place.Redis} }

// Pay simulates a payment.
func (e *Env) Pay(ctx context.Context) error { return clock.Sleep(ctx, e.Payment) }
