package redlock_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
)

func TestConformanceOnMiniredis(t *testing.T) { locktest.Run(t, env.PipedNodes(3, over)) }

func TestConformanceOnRedis(t *testing.T) { locktest.Run(t, env.RedisNodes(3, patientlyOver)) }
