package rwlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/locktest"
)

func TestWriterConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("write", sides)) }

func TestReaderConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("read", sides)) }

// The reading side on a real server has a package of its own, internal/locktest/reading.
func TestWriterConformanceOnRedis(t *testing.T) { locktest.Run(t, locktest.Redis("write", sides)) }
