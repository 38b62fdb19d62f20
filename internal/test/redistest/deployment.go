package redistest

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A Deployment is a Server, a Cluster, or a Sentinel with its servers.
type Deployment interface {
	// Universal returns a client, closed when the test ends. Each edit may change its options; a client of several servers
	// ignores those that it does not have.
	Universal(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient
	// Options returns the options with which redis.NewUniversalClient makes such a client, also in another process.
	Options() *redis.UniversalOptions
	// NewWire returns an undisturbed Wire to whatever its clients dial.
	NewWire() *Wire
	// Servers returns the servers that have data.
	Servers() []*Server
}

// Universal returns a client of s.
func (s *Server) Universal(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient {
	return s.NewClient(t, edit...)
}

// Options returns the options of a client in another process.
func (s *Server) Options() *redis.UniversalOptions {
	return &redis.UniversalOptions{Addrs: []string{s.addr}}
}

// Servers returns s.
func (s *Server) Servers() []*Server { return []*Server{s} }

// Servers returns the nodes.
func (s *several) Servers() []*Server { return s.Nodes }

// Options returns the options of a client of the Cluster in another process.
func (c *Cluster) Options() *redis.UniversalOptions {
	return &redis.UniversalOptions{Addrs: c.Addrs(), IsClusterMode: true}
}

// Universal returns a client of the Cluster. It repeats lost commands as often as its options say, because of redirects.
func (c *Cluster) Universal(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient {
	o := edited(edit)
	return c.Client(t, func(to *redis.ClusterOptions) {
		to.Dialer, to.MaxRedirects = o.Dialer, o.MaxRetries
		to.Username, to.Password = o.Username, o.Password
		to.DialTimeout, to.ReadTimeout, to.WriteTimeout = o.DialTimeout, o.ReadTimeout, o.WriteTimeout
		to.DialerRetries, to.ContextTimeoutEnabled = o.DialerRetries, o.ContextTimeoutEnabled
		to.PoolSize, to.PoolTimeout = o.PoolSize, o.PoolTimeout
		to.MaintNotificationsConfig = o.MaintNotificationsConfig
	})
}

// Options returns the options of a client of the master in another process.
func (s *Sentinel) Options() *redis.UniversalOptions {
	return &redis.UniversalOptions{Addrs: s.Addrs(), MasterName: MasterName}
}

// Universal returns a client of the master.
func (s *Sentinel) Universal(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient {
	o := edited(edit)
	return s.Client(t, func(to *redis.FailoverOptions) {
		to.Dialer, to.MaxRetries = o.Dialer, o.MaxRetries
		to.Username, to.Password = o.Username, o.Password
		to.DialTimeout, to.ReadTimeout, to.WriteTimeout = o.DialTimeout, o.ReadTimeout, o.WriteTimeout
		to.DialerRetries, to.ContextTimeoutEnabled = o.DialerRetries, o.ContextTimeoutEnabled
		to.PoolSize, to.PoolTimeout = o.PoolSize, o.PoolTimeout
	})
}

func edited(edit []func(*redis.Options)) *redis.Options {
	o := new(redis.Options)
	for _, f := range edit {
		f(o)
	}
	return o
}

// Keys lists the keys that begin with prefix.
func Keys(ctx context.Context, rdb redis.UniversalClient, prefix string) ([]string, error) {
	var (
		mu   sync.Mutex // masters are asked in parallel
		keys []string
	)
	scan := func(ctx context.Context, rdb *redis.Client) error {
		all := rdb.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for all.Next(ctx) {
			mu.Lock()
			keys = append(keys, all.Val())
			mu.Unlock()
		}
		return all.Err()
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		err := cluster.ForEachMaster(ctx, scan)
		return keys, err
	}
	err := scan(ctx, rdb.(*redis.Client))
	return keys, err
}
