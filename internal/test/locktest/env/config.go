package env

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Kind is the Kind of children that take locks as c's Locker does.
func (c Config) Kind() string {
	switch {
	case c.OverNodes != nil:
		return NodesMode
	case c.Wrap == nil:
		return ""
	}
	return c.Mode
}

// ClientMode is the mode of a Client.
const ClientMode = "exclusive"

// A Config says what Run is to test.
type Config struct {
	// Bubble runs each scenario in a synctest bubble: the backend must not use sockets.
	Bubble bool
	// Mode is what the Locker tells observers of its holds. With "read" it is the reading side of the
	// RWLocker that Wrap makes.
	Mode string
	// Server starts the server, or the servers, for one scenario. Nil: the Locker works within this process.
	Server func(t testing.TB) redistest.Deployment
	// Several says that it starts several servers, which all scenarios share.
	Several bool
	// Wrap makes the Locker of a Client; nil: the Client itself.
	Wrap func(c *lockmw.Client) lockmw.Locker
	// OverNodes makes the Locker of the Clients of independent servers; nil: there are none.
	OverNodes func(nodes []*lockmw.Client) NodesLocker

	shared redistest.Deployment // of the scenarios that share one; nil: none
	pace   *judge.Pace          // nil: they run in bubbles
}

// Local is the Config of a lockmw.Local.
func Local() Config { return Config{Bubble: true, Mode: ClientMode} }

// LocalReader is the Config of the reading side of a lockmw.Local.
func LocalReader() Config { return Config{Bubble: true, Mode: ReadMode} }

// Piped is the Config of a Locker over an embedded server, in bubbles.
func Piped(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{Bubble: true, Mode: mode, Wrap: wrap, Server: func(t testing.TB) redistest.Deployment { return redistest.Piped(t) }}
}

// Redis is the Config of a Locker over a real server, in real time.
func Redis(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap,
		Server: func(t testing.TB) redistest.Deployment { return redistest.Redis(t) },
	}
}

// A NodesLocker is what redlock.New returns.
type NodesLocker interface {
	lockmw.Locker
	Closer
}

// NodesMode is the Kind of children that take locks over several nodes.
const NodesMode = "nodes"

// PipedNodes is the Config of a Locker over n embedded servers, in bubbles.
func PipedNodes(n int, over func([]*lockmw.Client) NodesLocker) Config {
	return Config{Bubble: true, Mode: ClientMode, OverNodes: over, Server: func(t testing.TB) redistest.Deployment {
		return redistest.NewNodes(t, n, redistest.Piped)
	}}
}

// RedisNodes is the Config of a Locker over n real servers, in real time.
func RedisNodes(n int, over func([]*lockmw.Client) NodesLocker) Config {
	return Config{Mode: ClientMode, OverNodes: over, Server: func(t testing.TB) redistest.Deployment {
		return redistest.NewNodes(t, n, func(t testing.TB) *redistest.Server { return redistest.Redis(t) })
	}}
}

// unreplaced is for how long a server of several is not replaced, as busy as the machine may be.
const unreplaced = time.Minute

// Cluster is the Config of a Locker over a Cluster of three masters, in real time.
func Cluster(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap, Several: true,
		Server: func(t testing.TB) redistest.Deployment {
			return redistest.NewCluster(t, 3, 0, "--cluster-node-timeout", strconv.FormatInt(unreplaced.Milliseconds(), 10))
		},
	}
}

// Sentinel is the Config of a Locker over a master that Sentinels name, in real time.
func Sentinel(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap, Several: true,
		Server: func(t testing.TB) redistest.Deployment {
			s := redistest.NewSentinel(t, 1, 3)
			s.SetDownAfter(unreplaced)
			return s
		},
	}
}

// realTime reports whether the scenarios run on a server of its own process.
func (c Config) realTime() bool { return c.Server != nil && !c.Bubble }

// ReadMode is that of the reading side of an RWLocker.
const ReadMode = "read"

// PermitMode is that of a semaphore. With one permit it is fair, and its holds exclude each other.
const PermitMode = "permit"
