package lockmw_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
)

func TestLocalConformance(t *testing.T) { locktest.Run(t, locktest.Local()) }

func TestLocalReaderConformance(t *testing.T) { locktest.Run(t, locktest.LocalReader()) }

func TestClientConformanceOnMiniredis(t *testing.T) {
	locktest.Run(t, locktest.Piped("exclusive", nil))
}

func TestClientConformanceOnRedis(t *testing.T) { locktest.Run(t, locktest.Redis("exclusive", nil)) }
