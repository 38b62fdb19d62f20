package soak_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/soak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

var run = env.LongRunFlags("soak", 2*time.Second)

// TestSoak: go test ./internal/test/locktest/soak -run Soak -v -soak 10m -timeout 15m
func TestSoak(t *testing.T) {
	length, seed := run.Get(t)
	soak.Soak(t, env.Redis("exclusive", nil), length, seed)
}

// TestSoakOfACluster is TestSoak on three masters with a replica each. Slots move and masters are deposed.
func TestSoakOfACluster(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form, and to change")
	length, seed := run.Get(t)
	c := env.Cluster("exclusive", nil)
	c.Server = func(t testing.TB) redistest.Deployment {
		return redistest.NewCluster(t, 3, 1, "--cluster-node-timeout", "60000") // do not replace stopped nodes
	}
	soak.Soak(t, c, 2*length, seed)
}
