package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Redis clients as applications wrap them: what they embed shows what they are, or not.
type (
	wrapped        struct{ *redis.Client }
	wrappedCluster struct{ *redis.ClusterClient }
	wrappedRing    struct{ *redis.Ring }
	hidden         struct{ redis.UniversalClient }
	shown          struct{ hidden }
	tagged         struct {
		*redis.Client
		tags []string
	}
)

func (s shown) Unwrap() redis.UniversalClient { return s.UniversalClient }

// uses takes n locks with rdb, next to a second Client that waits for each.
func uses(t *testing.T, rdb redis.UniversalClient, n int) {
	t.Helper()
	var clients [2]*lockmw.Client
	for i := range clients {
		c := usertest.ClientOf(t, rdb)
		clients[i] = c
	}
	for i := range n {
		key := lockmw.Key("item", fmt.Sprint(t.Name(), i))
		_, hold := usertest.Lock(t, t.Context(), clients[0], key)
		if _, _, err := clients[1].TryLock(t.Context(), key); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("TryLock next to it: %v", err)
		}
		next := make(chan error, 1)
		go func() {
			next <- lockmw.Do(t.Context(), clients[1], key, func(context.Context) error { return nil })
		}()
		usertest.Unlock(t, hold)
		if err := <-next; err != nil {
			t.Error(err)
		}
	}
}

func TestWrappedClientsOfAServerAreUsed(t *testing.T) {
	rdb := redistest.Redis(t).NewClient(t)
	for name, wrapper := range map[string]redis.UniversalClient{
		"value": wrapped{rdb}, "pointer": &wrapped{rdb}, "hidden value": hidden{rdb}, "hidden pointer": &hidden{rdb},
		"with Unwrap": shown{hidden{rdb}}, "of a wrapper": hidden{hidden{rdb}}, "not comparable": &tagged{rdb, nil},
	} {
		t.Run(name, func(t *testing.T) { uses(t, wrapper, 3) })
	}
}

func TestWrappedClientsOfAClusterAreUsed(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 0)
	rdb := c.Client(t)
	for name, wrapper := range map[string]redis.UniversalClient{
		"value": wrappedCluster{rdb}, "pointer": &wrappedCluster{rdb}, "hidden": &hidden{rdb}, "with Unwrap": shown{hidden{rdb}},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 20
			uses(t, wrapper, n)
			inspector := usertest.Inspector(t, wrapper)
			locks := usertest.Abandoned(t, c.Client(t))
			for i := range n {
				if _, _, err := locks.Lock(t.Context(), lockmw.Key("held", fmt.Sprint(name, i))); err != nil {
					t.Fatal(err)
				}
			}
			seen := 0
			for status, err := range inspector.All(t.Context()) {
				switch {
				case err == nil && strings.HasPrefix(status.Key, lockmw.Key("held", name)):
					seen++
				case err != nil && (name != "hidden" || !errors.Is(err, errors.ErrUnsupported)):
					t.Error(err)
				}
			}
			if name != "hidden" && seen != n || name == "hidden" && seen != 0 {
				t.Errorf("the Inspector sees %d of %d locks", seen, n)
			}
		})
	}
}

func TestClientsOfUnknownServersAreRefused(t *testing.T) {
	one, two := redistest.Redis(t), redistest.Redis(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": one.Addr(), "two": two.Addr()}})
	defer func() { _ = ring.Close() }()
	user := one.NewClient(t)
	if err := redistest.SetUser(t.Context(), user, "uninformed", "on", ">word", "~*", "&*", "+@all", "-info"); err != nil {
		t.Fatal(err)
	}
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer func() { _ = away.Close() }()
	var none *wrapped
	for name, test := range map[string]struct {
		rdb  redis.UniversalClient
		says string
	}{
		"Ring":                 {ring, "Ring"},
		"wrapped Ring":         {wrappedRing{ring}, "Ring"},
		"pointer to a Ring":    {&wrappedRing{ring}, "Ring"},
		"Ring with Unwrap":     {shown{hidden{ring}}, "Ring"},
		"hidden Ring":          {hidden{ring}, "several servers"},
		"hidden miniredis":     {hidden{redistest.Mini(t).NewClient(t)}, "Unwrap"},
		"hidden, without INFO": {hidden{one.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "uninformed", "word" })}, "NOPERM"},
		"hidden, and away":     {hidden{away}, "connection refused"},
		"nil pointer":          {none, "nil"},
		"value without a hash": {tagged{user, nil}, "pointer"},
		"hidden nothing":       {(*hidden)(nil), "nil"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			c, err := lockmw.New(test.rdb)
			if err == nil {
				_ = c.Close()
			}
			if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("New: %v, want that it says %q", err, test.says)
			}
			if _, err := lockmw.NewInspector(test.rdb); !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("NewInspector: %v", err)
			}
			t.Logf("%v: %v", time.Since(start), err)
		})
	}
}
