// Package server runs a redis-server, or a Cluster, for the benchmark, reads its statistics, and can put a slow connection in
// front of it.
package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redisserver"
)

// A Server is a Redis server, or the nodes of a Cluster, or independent servers, with connections that only this package uses.
type Server struct {
	Addr        string   // of the server, or of the first one
	Nodes       []string // the addresses of the nodes of a Cluster; nil: there is none
	Independent []string // the addresses of independent servers; nil: it is one server, or a Cluster
	Version     string

	rdbs []*redis.Client
	own  []*redisserver.Server // none if it was already running
}

// Use returns the running server at addr.
func Use(ctx context.Context, addr string) (*Server, error) {
	s := &Server{Addr: addr}
	if err := s.connect(ctx, addr); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// flushTime is how long a server may take to empty itself of millions of keys, on a busy machine.
const flushTime = 30 * time.Second

// connect adds the server at addr.
func (s *Server) connect(ctx context.Context, addr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: flushTime, DialerRetries: 1, MaxRetries: -1})
	s.rdbs = append(s.rdbs, rdb)
	info, err := infoOf(ctx, rdb, "server")
	if err != nil {
		return fmt.Errorf("no Redis at %s: %w", addr, err)
	}
	s.Version = info["redis_version"]
	return nil
}

// Start starts a redis-server on a free port of this machine, without persistence.
func Start(ctx context.Context) (*Server, error) {
	s := new(Server)
	if err := s.start(ctx, redisserver.Start); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// start starts another server with start.
func (s *Server) start(ctx context.Context, start func(ctx context.Context, args ...string) (*redisserver.Server, error)) error {
	own, err := start(ctx)
	if errors.Is(err, redisserver.ErrNotInstalled) {
		return fmt.Errorf("%w: install one, or name a running one with -redis host:port", err)
	}
	if err != nil {
		return err
	}
	s.own = append(s.own, own)
	if s.Addr == "" {
		s.Addr = own.Addr()
	}
	return s.connect(ctx, own.Addr())
}

// Close stops what Start, StartCluster or StartNodes started.
func (s *Server) Close() error {
	var all error
	for _, rdb := range s.rdbs {
		all = errors.Join(all, rdb.Close())
	}
	for _, own := range s.own {
		own.Close()
	}
	return all
}

// Clean empties the server if the benchmark has started it; on others, keys are unique to each measurement and expire.
func (s *Server) Clean(ctx context.Context) error {
	if s.own == nil {
		return nil
	}
	var all error
	for _, rdb := range s.rdbs {
		all = errors.Join(all, rdb.FlushAll(ctx).Err())
	}
	return all
}
