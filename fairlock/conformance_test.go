package fairlock_test

import (
	"testing"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/lockmw"
)

func fair(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) }

func TestConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("fair", fair)) }

func TestConformanceOnRedis(t *testing.T) { locktest.Run(t, locktest.Redis("fair", fair)) }
