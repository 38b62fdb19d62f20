package rwlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMain(m *testing.M) {
	locktest.ChildMain(locktest.Redis("write", sides), locktest.Redis("read", sides))
	goleak.VerifyTestMain(m)
}

func sides(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) }
