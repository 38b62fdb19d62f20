package soak_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/soak"
)

var run = env.LongRunFlags("soak", 2*time.Second)

// TestSoak: go test ./internal/test/locktest/soak -run Soak -v -soak 10m -timeout 15m
func TestSoak(t *testing.T) {
	length, seed := run.Get(t)
	soak.Soak(t, env.Redis("exclusive", nil), length, seed)
}
