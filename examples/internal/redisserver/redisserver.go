// Package redisserver is the Redis that locks and tasks share.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A Server is a Redis, embedded or not: one server, a Cluster, or the master that Sentinels name.
type Server struct {
	Client redis.UniversalClient

	options  redis.UniversalOptions
	embedded *miniredis.Miniredis // nil if there were addresses
}

// Open connects to the Redis at addrs: a server, nodes of a Cluster, or the Sentinels of a master with that name. If
// there are none, it starts a server within the process.
func Open(ctx context.Context, addrs []string, master string) (*Server, error) {
	quietRedis()
	s := &Server{options: redis.UniversalOptions{Addrs: addrs, MasterName: master, DialTimeout: time.Second}}
	if len(addrs) == 0 {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // its leases would never run out otherwise
		if err := s.embedded.Start(); err != nil {
			return nil, fmt.Errorf("embedded redis: %w", err)
		}
		s.options.Addrs = []string{s.embedded.Addr()}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("no %s at %s: %w", s.kind(), strings.Join(s.options.Addrs, ", "), err)
	}
	return s, nil
}

func (s *Server) connect(ctx context.Context) error {
	s.Client = newClient(&s.options)
	if err := s.Client.Ping(ctx).Err(); err != nil {
		return err
	}
	if len(s.options.Addrs) == 1 && s.options.MasterName == "" && s.embedded == nil {
		// One node is enough to find a Cluster.
		info, err := s.Client.Info(ctx, "cluster").Result()
		if err == nil && strings.Contains(info, "cluster_enabled:1") {
			_ = s.Client.Close()
			s.options.IsClusterMode = true
			s.Client = newClient(&s.options)
		}
	}
	return s.Client.Exists(ctx, "orders").Err() // a Cluster that is down answers pings
}

// kind says what is expected at the addresses.
func (s *Server) kind() string {
	switch {
	case s.options.MasterName != "":
		return fmt.Sprintf("Sentinel that has the master %q", s.options.MasterName)
	case len(s.options.Addrs) > 1:
		return "redis cluster"
	}
	return "redis"
}

// Close ends the connections, and the embedded server.
func (s *Server) Close() error {
	err := s.Client.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
	return err
}

// NewClient returns a further client of the same Redis, with connections of its own. The caller closes it.
func (s *Server) NewClient() redis.UniversalClient {
	options := s.options
	return newClient(&options)
}

// Embedded reports whether the server runs within the process.
func (s *Server) Embedded() bool { return s.embedded != nil }

// Asynq returns the way to the same Redis for asynq, which uses connections of its own.
func (s *Server) Asynq() asynq.RedisConnOpt { return connections(s.options) }

// connections has asynq connect as locks do.
type connections redis.UniversalOptions

func (c connections) MakeRedisClient() any {
	options := redis.UniversalOptions(c)
	return newClient(&options)
}

// newClient returns a client that finds the new master of a Cluster's slot soon after a fail-over. lockmw sees to that
// for the client of the locks, but asynq does not for its own, and go-redis looks for masters once a minute.
func newClient(options *redis.UniversalOptions) redis.UniversalClient {
	if options.IsClusterMode || options.MasterName == "" && len(options.Addrs) > 1 {
		cluster := options.Cluster()
		cluster.ClusterStateReloadInterval = time.Second
		return redis.NewClusterClient(cluster)
	}
	return redis.NewUniversalClient(options)
}

// Clean removes what a sale left behind: its locks' counter, its queue and the queue's statistics.
// Every sale has a name of its own, so that a Redis with other uses stays as it was.
func (s *Server) Clean(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	clean := func(ctx context.Context, rdb *redis.Client) error { return unlink(ctx, rdb, name) }
	var err error
	switch rdb := s.Client.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, clean)
	case *redis.Client:
		err = clean(ctx, rdb)
	}
	if err != nil {
		return err
	}
	// Its tasks are gone: after a fail-over some may have been there that asynq takes for active and would keep.
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return err
	}
	return nil
}

// unlink removes a sale's keys from one server.
func unlink(ctx context.Context, rdb *redis.Client, name string) error {
	for _, pattern := range []string{name + ":*", "asynq:{" + name + "}:*"} {
		keys := rdb.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if err := rdb.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		if err := keys.Err(); err != nil {
			return err
		}
	}
	return nil
}

// quietRedis drops the redis client's remarks on single connections: what matters comes back as errors.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(&logging.VoidLogger{}) })
