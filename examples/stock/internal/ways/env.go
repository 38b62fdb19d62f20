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

// A Place says where everything is that ways work with. It travels to the shops' processes.
type Place struct {
	Name      string // begins the name of each key in Redis, and is that of the queue
	Database  string // the URL
	Tables    string // begins their names
	Redis     string // host:port
	Memcached string // host:port, or ""
	Lease     time.Duration
	Payment   time.Duration // how long the bank takes
}

// An Env is what a way works with.
type Env struct {
	Place

	Books     *books.Books
	Redis     *redis.Client
	Memcached *memcache.Client // nil if there is none

	// Stopper returns what stops work for a user that goes on after the user's call. It is set by a shop.
	Stopper func(user string) func(ctx context.Context) error

	closers []func() error
}

// NewEnv connects to everything.
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

// OnClose has f called by Close, the last one first.
func (e *Env) OnClose(f func() error) { e.closers = append(e.closers, f) }

// Close ends what was opened.
func (e *Env) Close() error {
	var err error
	for len(e.closers) > 0 {
		last := len(e.closers) - 1
		err = errors.Join(err, e.closers[last]())
		e.closers = e.closers[:last]
	}
	return err
}

// Asynq returns the way to Redis for asynq, which uses connections of its own.
func (e *Env) Asynq() asynq.RedisConnOpt { return asynq.RedisClientOpt{Addr: e.Place.Redis} }

// Pay waits for the bank.
func (e *Env) Pay(ctx context.Context) error { return clock.Sleep(ctx, e.Payment) }
