package semaphore_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
)

func TestMain(m *testing.M) { locktest.Main(m, env.Config{Mode: env.PermitMode, Wrap: one}) }
