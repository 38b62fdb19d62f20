package redistest_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestRestartedRedisFindsItsData(t *testing.T) {
	nothing := func(context.Context, *redis.Client) error { return nil }
	for name, test := range map[string]struct {
		args []string
		save func(context.Context, *redis.Client) error // between the first write and the second
		want string
	}{
		"without persistence": {nil, nothing, ""},
		"with a snapshot":     {nil, func(ctx context.Context, rdb *redis.Client) error { return rdb.Save(ctx).Err() }, "first"},
		"with every write":    {redistest.Kept, nothing, "second"},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Redis(t)
			addr := s.Addr()
			s.Kill()
			s.Restart(t, test.args...)
			rdb := s.NewClient(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
			if err := rdb.Set(t.Context(), "k", "first", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := test.save(t.Context(), rdb); err != nil {
				t.Fatal(err)
			}
			if err := rdb.Set(t.Context(), "k", "second", 0).Err(); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := rdb.Ping(t.Context()).Err(); err == nil {
				t.Error("a killed server answers")
			}
			s.Restart(t)
			if got, err := rdb.Get(t.Context(), "k").Result(); got != test.want {
				t.Errorf("the server has %q, want %q (%v)", got, test.want, err)
			}
			if s.Addr() != addr {
				t.Errorf("the server has moved from %s to %s", addr, s.Addr())
			}
		})
	}
}
