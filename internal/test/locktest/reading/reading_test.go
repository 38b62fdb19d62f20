// Package reading_test puts the reading side of rwlock through the scenarios. They take as long as
// those of a kind of its own, and packages are tested side by side.
package reading_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMain(m *testing.M) {
	locktest.Main(m, locktest.Redis("read", reader))
}

func reader(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) }

func TestReaderConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("read", reader)) }

func TestReaderConformanceOnRedis(t *testing.T) {
	locktest.Run(t, locktest.Redis("read", reader))
}
