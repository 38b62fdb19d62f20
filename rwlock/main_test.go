package rwlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMain(m *testing.M) {
	locktest.Main(m, env.Redis("write", sides), env.Redis("read", sides))
}

func sides(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) }
