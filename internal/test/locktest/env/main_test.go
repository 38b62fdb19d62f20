package env_test

import (
	"context"
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

func TestMain(m *testing.M) {
	locktest.Main(m, env.Config{Mode: "renaming", Wrap: renaming})
}

// renaming makes a Locker whose keys differ from its Client's.
func renaming(c *lockmw.Client) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return c.Lock(ctx, "renamed:"+key, opts...)
	})
}
