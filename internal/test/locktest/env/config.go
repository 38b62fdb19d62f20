package env

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// Kind returns the Kind of child processes that take the same locks as c's Locker.
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

// A Config describes a Locker under test.
type Config struct {
	// Bubble runs each scenario in a synctest bubble. The backend must not use sockets.
	Bubble bool
	// Mode is the mode that the Locker reports to observers. ReadMode tests the reading side of the RWLocker that Wrap makes.
	Mode string
	// Server starts the server or servers of one scenario. Nil: the Locker works within this process.
	Server func(t testing.TB) redistest.Deployment
	// External returns servers that are already running, for scenarios that share theirs, and whether there are any. Nil: none.
	External func(t testing.TB) (redistest.Deployment, bool)
	// Several tells that Server starts several servers. All scenarios share them.
	Several bool
	// Layered tells that the Locker adds to one that runs all scenarios, so that the quick suite runs only samples.
	Layered bool
	// Slotted gives the Clients WithSlottedKeys.
	Slotted bool
	// Wrap makes the Locker of a Client. Nil: the Client itself.
	Wrap func(c *lockmw.Client) lockmw.Locker
	// OverNodes makes a Locker over Clients of independent servers. Nil: the Locker uses one Client.
	OverNodes func(nodes []*lockmw.Client) NodesLocker

	shared   redistest.Deployment // for scenarios that share their server; otherwise nil
	external bool                 // shared was already running
	pace     *judge.Pace          // nil in bubbles
}

// Local returns the Config of a lockmw.Local.
func Local() Config { return Config{Bubble: true, Mode: ClientMode} }

// LocalReader returns the Config of a lockmw.Local's reading side.
func LocalReader() Config { return Config{Bubble: true, Mode: ReadMode} }

// Piped returns the Config of a Locker over an embedded server, in bubbles.
func Piped(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{Bubble: true, Mode: mode, Wrap: wrap, Server: func(t testing.TB) redistest.Deployment { return redistest.Piped(t) }}
}

// Redis returns the Config of a Locker over a real server, in real time.
func Redis(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap,
		Server: func(t testing.TB) redistest.Deployment { return redistest.Redis(t) },
		External: func(t testing.TB) (redistest.Deployment, bool) {
			s := redistest.External(t)
			return s, s != nil
		},
	}
}

// Slotted returns the Config of a Locker with WithSlottedKeys over a real server that refuses scripts whose keys are in several
// slots, in real time. The server is the only node of a Cluster, which its clients do not know.
func Slotted(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap, Slotted: true, Several: true, // it stands for several
		Server: func(t testing.TB) redistest.Deployment { return redistest.Slotted(t) },
	}
}

// A NodesLocker is the result of redlock.New.
type NodesLocker interface {
	lockmw.Locker
	Closer
}

// NodesMode is the Kind of children that take locks over several nodes.
const NodesMode = "nodes"

// PipedNodes returns the Config of a Locker over n embedded servers, in bubbles.
func PipedNodes(n int, over func([]*lockmw.Client) NodesLocker) Config {
	return Config{Bubble: true, Mode: ClientMode, OverNodes: over, Server: func(t testing.TB) redistest.Deployment {
		return redistest.NewNodes(t, n, redistest.Piped)
	}}
}

// RedisNodes returns the Config of a Locker over n real servers, in real time.
func RedisNodes(n int, over func([]*lockmw.Client) NodesLocker) Config {
	return Config{Mode: ClientMode, OverNodes: over, Server: func(t testing.TB) redistest.Deployment {
		return redistest.NewNodes(t, n, func(t testing.TB) *redistest.Server { return redistest.Redis(t) })
	}}
}

// unreplaced is a fail-over timeout so long that no server is replaced, even on a busy machine.
const unreplaced = time.Minute

// Cluster returns the Config of a Locker over a Cluster of three masters, in real time.
func Cluster(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap, Several: true,
		Server: func(t testing.TB) redistest.Deployment {
			return redistest.NewCluster(t, 3, 0, "--cluster-node-timeout", strconv.FormatInt(unreplaced.Milliseconds(), 10))
		},
		External: func(t testing.TB) (redistest.Deployment, bool) {
			c := redistest.ExternalCluster(t)
			return c, c != nil
		},
	}
}

// Sentinel returns the Config of a Locker over a master with Sentinels, in real time.
func Sentinel(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap, Several: true,
		Server: func(t testing.TB) redistest.Deployment {
			s := redistest.NewSentinel(t, 1, 3)
			s.SetDownAfter(unreplaced)
			return s
		},
		External: func(t testing.TB) (redistest.Deployment, bool) {
			s := redistest.ExternalSentinel(t)
			return s, s != nil
		},
	}
}

// layout returns the options that determine the keys of a Client.
func (c Config) layout(prefix string) []lockmw.ClientOption {
	opts := []lockmw.ClientOption{lockmw.WithPrefix(prefix)}
	if c.Slotted {
		opts = append(opts, lockmw.WithSlottedKeys())
	}
	return opts
}

// realTime reports whether scenarios run on a real server.
func (c Config) realTime() bool { return c.Server != nil && !c.Bubble }

// ReadMode is the mode of an RWLocker's reading side.
const ReadMode = "read"

// PermitMode is the mode of a semaphore. With one permit it is fair, and its holds exclude each other.
const PermitMode = "permit"
