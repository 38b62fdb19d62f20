package rwlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
)

func TestWriterConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("write", sides)) }

func TestReaderConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("read", sides)) }

func TestWriterConformanceOnRedis(t *testing.T) { locktest.Run(t, locktest.Redis("write", sides)) }

func TestReaderConformanceOnRedis(t *testing.T) { locktest.Run(t, locktest.Redis("read", sides)) }
