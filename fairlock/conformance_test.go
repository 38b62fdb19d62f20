package fairlock_test

import (
	"testing"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

func fair(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) }

func TestConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.Piped("fair", fair)) }

func TestConformanceOnACluster(t *testing.T) { locktest.Run(t, env.Cluster("fair", fair)) }

func TestConformanceOverSentinel(t *testing.T) {
	suite.NeedsSeveral(t, "the plain lock and the writers stand for it")
	locktest.Run(t, env.Sentinel("fair", fair))
}

func TestConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis("fair", fair)) }

func TestConformanceWithSlottedKeys(t *testing.T) { locktest.Run(t, env.Slotted("fair", fair)) }
