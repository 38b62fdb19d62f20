package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A redisServer is the Redis that locks and tasks share: an embedded one, or that of -redis.
type redisServer struct {
	addr     string
	embedded *miniredis.Miniredis // nil with -redis
	client   *redis.Client
}

func openRedis(ctx context.Context, addr string) (*redisServer, error) {
	quietRedis()
	s := &redisServer{addr: addr}
	if addr == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // its leases would never run out otherwise
		if err := s.embedded.Start(); err != nil {
			return nil, fmt.Errorf("embedded redis: %w", err)
		}
		s.addr = s.embedded.Addr()
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, DialTimeout: time.Second})

	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		_ = s.close()
		return nil, fmt.Errorf("no redis at %s: %w", s.addr, err)
	}
	return s, nil
}

func (s *redisServer) close() error {
	err := s.client.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
	return err
}

// asynq returns the way to the same Redis for asynq, which uses connections of its own.
func (s *redisServer) asynq() asynq.RedisConnOpt { return asynq.RedisClientOpt{Addr: s.addr} }

// forget removes what a sale left behind: its locks' counter, its queue and the queue's statistics.
// Every sale has a name of its own, so that a Redis with other uses stays as it was.
func (s *redisServer) forget(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	inspector := asynq.NewInspectorFromRedisClient(s.client)
	if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return err
	}
	for _, pattern := range []string{name + ":*", "asynq:{" + name + "}:*"} {
		keys := s.client.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if err := s.client.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		if err := keys.Err(); err != nil {
			return err
		}
	}
	return nil
}

// quiet drops the redis client's remarks on single connections: what matters comes back as errors.
type quiet struct{}

var quietRedis = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

func (quiet) Printf(context.Context, string, ...any) {}
