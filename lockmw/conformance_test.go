package lockmw_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
)

func TestLocalConformance(t *testing.T) { locktest.Run(t, env.Local()) }

func TestLocalReaderConformance(t *testing.T) { locktest.Run(t, env.LocalReader()) }

func TestClientConformanceOnMiniredis(t *testing.T) {
	locktest.Run(t, env.Piped("exclusive", nil))
}

func TestClientConformanceOnACluster(t *testing.T) { locktest.Run(t, env.Cluster("exclusive", nil)) }

func TestClientConformanceOverSentinel(t *testing.T) { locktest.Run(t, env.Sentinel("exclusive", nil)) }

func TestClientConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis("exclusive", nil)) }

func TestClientConformanceWithSlottedKeys(t *testing.T) {
	locktest.Run(t, env.Slotted("exclusive", nil))
}
