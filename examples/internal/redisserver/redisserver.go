// Package redisserver connects the examples to Redis, or starts an embedded server.
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

// A Server is a Redis: an embedded server, a single server, a Cluster, or the master of Sentinels.
type Server struct {
	Client redis.UniversalClient

	options  redis.UniversalOptions
	embedded *miniredis.Miniredis // nil for a real server
	stop     func()               // stops expireEvery, if it runs
}

// Open connects to the Redis at addrs: a server, nodes of a Cluster, or, with master, its Sentinels. Without addresses it
// starts a server in this process.
func Open(ctx context.Context, addrs []string, master string) (*Server, error) {
	quietRedis()
	s := &Server{options: redis.UniversalOptions{Addrs: addrs, MasterName: master, DialTimeout: time.Second}}
	if len(addrs) == 0 {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // otherwise its keys would never expire
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
		// A single node may belong to a Cluster.
		info, err := s.Client.Info(ctx, "cluster").Result()
		if err == nil && strings.Contains(info, "cluster_enabled:1") {
			_ = s.Client.Close()
			s.options.IsClusterMode = true
			s.Client = newClient(&s.options)
		}
	}
	return s.Client.Exists(ctx, "orders").Err() // a Cluster that is down still answers pings
}

// kind names the kind of server that is expected at the addresses.
func (s *Server) kind() string {
	switch {
	case s.options.MasterName != "":
		return fmt.Sprintf("Sentinel with master %q", s.options.MasterName)
	case len(s.options.Addrs) > 1:
		return "redis cluster"
	}
	return "redis"
}

// ExpireEvery makes an embedded server look for expired keys at this interval. Otherwise it does at each command, which takes
// longer the more keys there are. Keys may then expire early by the interval. Call it once.
func (s *Server) ExpireEvery(interval time.Duration) {
	if s.embedded == nil {
		return
	}
	s.embedded.ClockTTL(false)
	ended, done := make(chan struct{}), make(chan struct{})
	s.stop = func() { close(ended); <-done }
	go func() {
		defer close(done)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
				now := time.Now()
				s.embedded.FastForward(now.Sub(last))
				last = now
			case <-ended:
				return
			}
		}
	}()
}

// Close closes the connections and the embedded server.
func (s *Server) Close() error {
	if s.stop != nil {
		s.stop()
	}
	err := s.Client.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
	return err
}

// NewClient returns another client of the same Redis, with its own connections. The caller closes it.
func (s *Server) NewClient() redis.UniversalClient {
	options := s.options
	return newClient(&options)
}

// Embedded reports whether the server runs within the process.
func (s *Server) Embedded() bool { return s.embedded != nil }

// Asynq returns the connection options of the same Redis for asynq, which uses its own connections.
func (s *Server) Asynq() asynq.RedisConnOpt { return connections(s.options) }

// connections makes asynq connect with the same options as the locks.
type connections redis.UniversalOptions

func (c connections) MakeRedisClient() any {
	options := redis.UniversalOptions(c)
	return newClient(&options)
}

// newClient returns a client that finds the new master of a Cluster's slot within a second after a fail-over. lockmw does
// this for its own client; asynq does not, and go-redis reloads the masters only once a minute.
func newClient(options *redis.UniversalOptions) redis.UniversalClient {
	if options.IsClusterMode || options.MasterName == "" && len(options.Addrs) > 1 {
		cluster := options.Cluster()
		cluster.ClusterStateReloadInterval = time.Second
		return redis.NewClusterClient(cluster)
	}
	return redis.NewUniversalClient(options)
}

// Clean removes the keys of a sale: its locks' counter, its queue and the queue's statistics.
// Every sale has its own name, so other keys in the Redis stay untouched.
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
	// Force is needed: after a fail-over asynq may count lost tasks as active and would keep the queue.
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return err
	}
	return nil
}

// unlink removes the keys of a sale from one server.
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

// quietRedis discards the log of go-redis. Commands return the errors that matter.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(&logging.VoidLogger{}) })
