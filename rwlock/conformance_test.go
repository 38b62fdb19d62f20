package rwlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/suite"
)

func TestWriterConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.Piped("write", sides)) }

func TestReaderConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.Piped("read", sides)) }

func TestWriterConformanceOnACluster(t *testing.T) { locktest.Run(t, env.Cluster("write", sides)) }

func TestReaderConformanceOnACluster(t *testing.T) {
	suite.NeedsSeveral(t, "the plain lock and the writers stand for it")
	locktest.Run(t, env.Cluster("read", sides))
}

func TestWriterConformanceOverSentinel(t *testing.T) {
	suite.NeedsSeveral(t, "the plain lock and the writers stand for it")
	locktest.Run(t, env.Sentinel("write", sides))
}

func TestReaderConformanceOverSentinel(t *testing.T) {
	suite.NeedsSeveral(t, "the plain lock and the writers stand for it")
	locktest.Run(t, env.Sentinel("read", sides))
}

func TestWriterConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis("write", sides)) }

func TestReaderConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis("read", sides)) }

func TestWriterConformanceWithSlottedKeys(t *testing.T) { locktest.Run(t, env.Slotted("write", sides)) }

func TestReaderConformanceWithSlottedKeys(t *testing.T) {
	suite.NeedsFull(t, "the writers stand for it")
	locktest.Run(t, env.Slotted("read", sides))
}
