package semaphore_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// one returns a semaphore with one permit, which must behave like a fair lock.
func one(c *lockmw.Client) lockmw.Locker { return semaphore.New(c, 1) }

func TestConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.Piped(env.PermitMode, one)) }

func TestConformanceOnACluster(t *testing.T) {
	suite.NeedsSeveral(t, "the plain lock and the writers stand for it")
	locktest.Run(t, env.Cluster(env.PermitMode, one))
}

func TestConformanceOverSentinel(t *testing.T) {
	suite.NeedsSeveral(t, "the plain lock and the writers stand for it")
	locktest.Run(t, env.Sentinel(env.PermitMode, one))
}

func TestConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis(env.PermitMode, one)) }

func TestConformanceWithSlottedKeys(t *testing.T) { locktest.Run(t, env.Slotted(env.PermitMode, one)) }
