package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestAServerThatRunsIsUsedAndEmptied(t *testing.T) {
	own := redistest.Redis(t)
	rdb := own.NewClient(t)
	if s := redistest.External(t); s != nil {
		t.Fatalf("%s is used without the variable", s.Addr())
	}
	t.Setenv(redistest.VariableAddr, own.Addr())
	for range 2 { // the second test finds it empty
		used := 0
		redistest.Each(t, func(t *testing.T, s *redistest.Server) {
			if s.Mini != nil {
				return
			}
			if used++; s.Addr() != own.Addr() {
				t.Errorf("the test uses %s", s.Addr())
			}
			write(t, s.NewClient(t), "key")
		})
		if n := rdb.DBSize(t.Context()).Val(); n != 0 || used != 1 {
			t.Errorf("%d tests used the server, and left %d keys", used, n)
		}
	}
	t.Run("own", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("a test that needs a server of its own is not skipped")
			}
		})
		redistest.Redis(t)
	})
}

func TestAServerWithDataIsRefused(t *testing.T) {
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	if err := redistest.MustBeEmpty(t.Context(), rdb); err != nil {
		t.Error(err)
	}
	other := s.NewClient(t, func(o *redis.Options) { o.DB = 1 })
	if err := other.Set(t.Context(), "key", "v", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*redis.Client{rdb, other} {
		if err := redistest.MustBeEmpty(t.Context(), c); err == nil {
			t.Error("a server with a key counts as empty")
		}
	}
}

func TestAClusterAndSentinelsThatRunAreUsed(t *testing.T) {
	suite.NeedsFull(t, "servers have to find each other")
	c, s := redistest.NewCluster(t, 2, 0), redistest.NewSentinel(t, 1, 1)
	for variable, test := range map[string]struct {
		addr string
		find func(t *testing.T) redistest.Deployment
		all  redistest.Deployment
	}{
		redistest.VariableCluster:  {c.Addrs()[0], func(t *testing.T) redistest.Deployment { return redistest.ExternalCluster(t) }, c},
		redistest.VariableSentinel: {s.Addrs()[0], func(t *testing.T) redistest.Deployment { return redistest.ExternalSentinel(t) }, s},
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, test.addr)
			write(t, test.find(t).Universal(t), "key")
			holds(t, test.all.Universal(t), "key")
		})
		if keys, err := redistest.Keys(t.Context(), test.all.Universal(t), ""); err != nil || len(keys) > 0 {
			t.Errorf("%s: %q, %v", variable, keys, err)
		}
	}
}
