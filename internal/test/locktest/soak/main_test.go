package soak_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }
