// Package server runs a redis-server for the benchmark, reads its statistics, and can put a slow wire
// in front of it.
package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redisserver"
)

// A Server is a Redis server and a connection to it that only this package uses.
type Server struct {
	Addr    string
	Version string

	rdb *redis.Client
	own *redisserver.Server // nil if it was running already
}

// Use returns the server that runs at addr.
func Use(ctx context.Context, addr string) (*Server, error) {
	s := &Server{Addr: addr, rdb: redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1,
	})}
	info, err := s.info(ctx, "server")
	if err != nil {
		_ = s.rdb.Close()
		return nil, fmt.Errorf("no Redis at %s: %w", addr, err)
	}
	s.Version = info["redis_version"]
	return s, nil
}

// Start starts a redis-server on a free port of this machine, without persistence.
func Start(ctx context.Context) (*Server, error) {
	own, err := redisserver.Start(ctx)
	if errors.Is(err, redisserver.ErrNotInstalled) {
		return nil, fmt.Errorf("%w: install one, or name a running one with -redis host:port", err)
	}
	if err != nil {
		return nil, err
	}
	s, err := Use(ctx, own.Addr())
	if err != nil {
		own.Close()
		return nil, err
	}
	s.own = own
	return s, nil
}

// Close stops the server if Start started it.
func (s *Server) Close() error {
	err := s.rdb.Close()
	if s.own != nil {
		s.own.Close()
	}
	return err
}

// Clean empties the server if it is the benchmark's own; on others, keys are unique to each
// measurement and end by themselves.
func (s *Server) Clean(ctx context.Context) error {
	if s.own == nil {
		return nil
	}
	return s.rdb.FlushAll(ctx).Err()
}
