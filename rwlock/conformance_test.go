package rwlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
)

// The reading side has a package of its own, internal/test/locktest/reading.
func TestWriterConformanceOnMiniredis(t *testing.T) { locktest.Run(t, locktest.Piped("write", sides)) }

func TestWriterConformanceOnRedis(t *testing.T) { locktest.Run(t, locktest.Redis("write", sides)) }
