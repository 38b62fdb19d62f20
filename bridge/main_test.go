package bridge_test

import (
	"slices"
	"testing"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/internal/test/locktest"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/fault"
	"github.com/lockmw/go/internal/test/locktest/plain"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

func TestMain(m *testing.M) { locktest.Main(m, env.Redis("exclusive", overRedsync)) }

// overRedsync makes a bridge whose old keys are on the server of c.
func overRedsync(c *lockmw.Client) lockmw.Locker {
	k, _ := kinds.Of(c)
	b, _ := k.Backend()
	return bridge.Redsync(c, b.Redis)
}

func TestConformanceOnMiniredis(t *testing.T) {
	env.Run(t, layered(env.Piped("exclusive", overRedsync)), promises())
}

func TestConformanceOnRedis(t *testing.T) {
	suite.NeedsFull(t, "the locks below the bridge pass on Redis, and its own tests run its scripts there")
	env.Run(t, layered(env.Redis("exclusive", overRedsync)), promises())
}

// layered tells that the bridge adds to the locks of lockmw.
func layered(c env.Config) env.Config {
	c.Layered = true
	return c
}

// promises are the promises of every lock while nothing fails. They leave out how long other callers should wait for a minimum hold:
// the bridge begins it when it has the old key, and no longer tells them its length.
func promises() []env.Group {
	return slices.DeleteFunc(slices.Concat(plain.Groups, fault.Groups), func(g env.Group) bool { return g.Name == "retry" })
}
