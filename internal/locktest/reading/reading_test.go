// Package reading_test puts the reading side of rwlock through the scenarios on a real server. They take
// as long as those of a kind of its own, and packages are tested side by side.
package reading_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/locktest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMain(m *testing.M) {
	locktest.ChildMain(onRedis)
	goleak.VerifyTestMain(m)
}

var onRedis = locktest.Redis("read", func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) })

func TestReaderConformanceOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute and more; package rwlock tests the other side and both together")
	}
	locktest.Run(t, onRedis)
}
