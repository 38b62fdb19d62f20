package soak_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/soak"
)

var (
	soakLength = flag.Duration("soak", 2*time.Second, "how long the soak lasts")
	soakSeed   = flag.Uint64("seed", 0, "repeats a soak; 0: one of its own")
)

// TestSoak: go test ./internal/test/locktest/soak -run Soak -v -soak 10m -timeout 15m
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d repeats this run", seed)
	soak.Soak(t, env.Redis("exclusive", nil), *soakLength, seed)
}
