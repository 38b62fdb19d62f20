package redistest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Environment variables that name servers which the tests have not started, without a password. Several addresses have commas
// between them. If one of them is set, all tests that need a server of their own are skipped.
const (
	VariableAddr     = "LOCKMW_REDIS_ADDR"     // host:port of a server
	VariableCluster  = "LOCKMW_REDIS_CLUSTER"  // host:port of nodes of a Cluster
	VariableSentinel = "LOCKMW_REDIS_SENTINEL" // host:port of Sentinels, whose master is named MasterName
)

// skipIfExternal skips a test that needs a server of its own if the tests run on others.
func skipIfExternal(t testing.TB) {
	t.Helper()
	for _, name := range []string{VariableAddr, VariableCluster, VariableSentinel} {
		if os.Getenv(name) != "" {
			t.Skipf("it needs a server that it starts itself, and %s is set", name)
		}
	}
}

// External returns the server of VariableAddr, for this test alone until it ends; nil if the variable is not set. The server must
// be empty, and is empty again when the test has ended. A test may call only one of the functions for external servers.
func External(t testing.TB) *Server {
	t.Helper()
	addrs := externalAddrs(VariableAddr)
	if addrs == nil {
		return nil
	}
	s := &Server{addr: addrs[0]}
	occupy(t, s)
	return s
}

// ExternalCluster is External for the masters of VariableCluster.
func ExternalCluster(t testing.TB) *Cluster {
	t.Helper()
	addrs := externalAddrs(VariableCluster)
	if addrs == nil {
		return nil
	}
	c := &Cluster{several: several{t: t}}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer rdb.Close()
	var mu sync.Mutex // masters are asked in parallel
	err := rdb.ForEachMaster(t.Context(), func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		c.Nodes = append(c.Nodes, &Server{addr: master.Options().Addr})
		return nil
	})
	if err != nil || len(c.Nodes) == 0 {
		t.Fatalf("%s has %d masters: %v", VariableCluster, len(c.Nodes), err)
	}
	occupy(t, c.Nodes...)
	return c
}

// ExternalSentinel is External for the master of VariableSentinel.
func ExternalSentinel(t testing.TB) *Sentinel {
	t.Helper()
	addrs := externalAddrs(VariableSentinel)
	if addrs == nil {
		return nil
	}
	s := &Sentinel{several: several{t: t}}
	for _, addr := range addrs {
		s.Sentinels = append(s.Sentinels, &Server{addr: addr})
	}
	watcher := redis.NewSentinelClient(&redis.Options{Addr: addrs[0]})
	defer watcher.Close()
	master, err := watcher.GetMasterAddrByName(t.Context(), MasterName).Result()
	if err != nil {
		t.Fatalf("the master %s of %s: %v", MasterName, VariableSentinel, err)
	}
	s.Nodes = []*Server{{addr: strings.Join(master, ":")}}
	occupy(t, s.Nodes...)
	return s
}

func externalAddrs(variable string) []string {
	if value := os.Getenv(variable); value != "" {
		return strings.Split(value, ",")
	}
	return nil
}

// occupied is held by the test that uses external servers.
var occupied sync.Mutex

// occupy waits for the servers, which one test uses at a time, and empties them when t ends.
func occupy(t testing.TB, servers ...*Server) {
	t.Helper()
	occupied.Lock()
	t.Cleanup(occupied.Unlock)
	for _, s := range servers {
		rdb := s.NewClient(t)
		if err := mustBeEmpty(t.Context(), rdb); err != nil {
			t.Fatalf("%s: %v", s.addr, err)
		}
		t.Cleanup(func() {
			if err := rdb.FlushAll(context.Background()).Err(); err != nil {
				t.Errorf("emptying %s: %v", s.addr, err)
			}
		})
	}
}

// mustBeEmpty protects the data of a server that tests use by mistake.
func mustBeEmpty(ctx context.Context, rdb *redis.Client) error {
	n, err := rdb.DBSize(ctx).Result()
	if err != nil {
		return err
	}
	info, _ := rdb.Info(ctx, "keyspace").Result() // the other databases
	if n > 0 || strings.Contains(info, ":keys=") && !strings.Contains(info, ":keys=0,") {
		return fmt.Errorf("tests delete all data, so they need an empty server (with go test -p 1), and this one has %d keys\n%s", n, info)
	}
	return nil
}
