// Package redisserver is the Redis that locks and tasks share.
package redisserver

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

// A Server is a Redis, embedded or not.
type Server struct {
	Client *redis.Client

	addr     string
	embedded *miniredis.Miniredis // nil if there was an address
}

// Open connects to the Redis at addr; if that is empty, it starts one within the process.
func Open(ctx context.Context, addr string) (*Server, error) {
	quietRedis()
	s := &Server{addr: addr}
	if addr == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // its leases would never run out otherwise
		if err := s.embedded.Start(); err != nil {
			return nil, fmt.Errorf("embedded redis: %w", err)
		}
		s.addr = s.embedded.Addr()
	}
	s.Client = redis.NewClient(&redis.Options{Addr: s.addr, DialTimeout: time.Second})

	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := s.Client.Ping(ctx).Err(); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("no redis at %s: %w", s.addr, err)
	}
	return s, nil
}

// Close ends the connections, and the embedded server.
func (s *Server) Close() error {
	err := s.Client.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
	return err
}

// Asynq returns the way to the same Redis for asynq, which uses connections of its own.
func (s *Server) Asynq() asynq.RedisConnOpt { return asynq.RedisClientOpt{Addr: s.addr} }

// Clean removes what a sale left behind: its locks' counter, its queue and the queue's statistics.
// Every sale has a name of its own, so that a Redis with other uses stays as it was.
func (s *Server) Clean(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return err
	}
	for _, pattern := range []string{name + ":*", "asynq:{" + name + "}:*"} {
		keys := s.Client.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if err := s.Client.Unlink(ctx, keys.Val()).Err(); err != nil {
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
