package migration_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/lockmw/go/internal/test/redisserver"
	"github.com/lockmw/go/internal/test/redistest"
)

// An address is where a process finds the servers: one server, a Cluster, the Sentinels of a master, or independent servers.
type address struct {
	Addrs       []string
	Cluster     bool
	Master      string // its name in the Sentinels
	Independent bool
}

// client returns a client of go-redis; of independent servers, of the first one.
func (a address) client() redis.UniversalClient { return a.clients()[0] }

// clients returns a client of go-redis; of independent servers, one for each.
func (a address) clients() (all []redis.UniversalClient) {
	if !a.Independent {
		o := &redis.UniversalOptions{Addrs: a.Addrs, IsClusterMode: a.Cluster, MasterName: a.Master}
		return []redis.UniversalClient{redis.NewUniversalClient(o)}
	}
	for _, addr := range a.Addrs {
		all = append(all, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return all
}

// rueidis returns the options of a client of rueidis.
func (a address) rueidis() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: a.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: a.Master}}
}

// A place is servers with a fault that they have once in each mixture.
type place struct {
	address
	fault func(t testing.TB)
	loses bool // the fault may lose locks that were just taken: replication is asynchronous
}

// oneServer is killed and restarted with its data.
func oneServer(t testing.TB) *place {
	server, err := redisserver.Start(t.Context(), "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &place{address: address{Addrs: []string{server.Addr()}}, fault: func(t testing.TB) {
		server.Kill()
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}}
}

// independent is servers of which the last one fails for good. The locks of lockmw are on the first one.
func independent(t testing.TB, n int) *place {
	at := &place{address: address{Independent: true}}
	var servers []*redistest.Server
	for range n {
		servers = append(servers, redistest.Redis(t))
		at.Addrs = append(at.Addrs, servers[len(servers)-1].Addr())
	}
	at.fault = func(testing.TB) { servers[n-1].Kill() }
	return at
}

// aCluster moves a slot and replaces a master. Both keep all data.
func aCluster(t testing.TB) *place {
	c := redistest.NewCluster(t, 3, 1)
	return &place{address: address{Addrs: c.Addrs(), Cluster: true}, fault: func(testing.TB) {
		c.Move("item:1")
		c.Depose("item:2")
		c.AwaitSettled()
	}}
}

// aSentinel replaces the master, and writes that the replica does not have yet are lost.
func aSentinel(t testing.TB) *place {
	s := redistest.NewSentinel(t, 1, 3)
	return &place{address: address{Addrs: s.Addrs(), Master: redistest.MasterName}, loses: true, fault: func(testing.TB) {
		s.Failover()
		s.AwaitSettled()
	}}
}

// A span is a time in which locks may have been lost.
type span struct{ from, to time.Time }

// hit reports whether a hold was taken or held in that time.
func (s span) hit(r report) bool { return r.Enter.Before(s.to) && r.Exit.After(s.from) }
