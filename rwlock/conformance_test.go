package rwlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
)

func TestWriterConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.Piped("write", sides)) }

func TestReaderConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.Piped("read", sides)) }

func TestWriterConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis("write", sides)) }

func TestReaderConformanceOnRedis(t *testing.T) { locktest.Run(t, env.Redis("read", sides)) }
