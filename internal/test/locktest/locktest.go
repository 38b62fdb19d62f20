// Package locktest is the conformance suite of the locks: the scenarios that every Locker passes,
// with the faults really injected.
//
//	func TestLocal(t *testing.T) { locktest.Run(t, locktest.Local()) }
//
// Where Run is given a real server some scenarios start child processes, which are copies of the test
// binary, and TestMain has to call ChildMain.
//
// Each scenario has a backend of its own. On an embedded server it runs in a testing/synctest bubble,
// where minutes pass at once and times are exact; on a real one the same scenario runs in real time.
package locktest

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A Config says what Run is to test.
type Config struct {
	// Bubble runs each scenario in a synctest bubble: the backend must not use sockets.
	Bubble bool
	// Mode is what the Locker tells observers of its holds. With "read" it is the reading side of the
	// RWLocker that Wrap makes.
	Mode string
	// Server starts the server for one scenario. Nil: the Locker works within this process.
	Server func(t testing.TB) *redistest.Server
	// Wrap makes the Locker of a Client; nil: the Client itself.
	Wrap func(c *lockmw.Client) lockmw.Locker
}

// Local is the Config of a lockmw.Local.
func Local() Config { return Config{Bubble: true, Mode: clientMode} }

// LocalReader is the Config of the reading side of a lockmw.Local.
func LocalReader() Config { return Config{Bubble: true, Mode: readMode} }

// Piped is the Config of a Locker over an embedded server, in bubbles.
func Piped(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{Bubble: true, Mode: mode, Wrap: wrap, Server: redistest.Piped}
}

// Redis is the Config of a Locker over a real server, in real time.
func Redis(mode string, wrap func(*lockmw.Client) lockmw.Locker) Config {
	return Config{
		Mode: mode, Wrap: wrap,
		Server: func(t testing.TB) *redistest.Server { return redistest.Redis(t) },
	}
}

// Run runs the scenarios that c's Locker can be put through.
func Run(t *testing.T, c Config) {
	if c.Server != nil && !c.Bubble {
		redistest.Redis(t) // skips all scenarios at once if there is none
	}
	if c.Bubble && race.Enabled {
		// Two threads that run timers of one bubble at the same time make the race detector crash:
		// https://go.dev/issue/78156. With one processor there is but one.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	for _, group := range groups {
		if group.faults && testing.Short() && c.Mode != clientMode {
			continue // these meet what all kinds share
		}
		t.Run(group.name, func(t *testing.T) {
			for _, s := range group.scenarios {
				if s.possible(c) {
					t.Run(s.name, func(t *testing.T) { c.run(t, s) })
				}
			}
		})
	}
}

// A scenario is one test that every Locker passes.
type scenario struct {
	name  string
	run   func(e *env)
	needs needs
}

// needs are what a scenario cannot do without.
type needs uint

const (
	server   needs = 1 << iota // a server, and with it several processes
	inProc                     // no server
	bubble                     // exact times
	realTime                   // a server of its own process
	fair                       // a Locker that is first come, first served
	excludes                   // one whose holds exclude each other
	passesOn                   // one that a process passes on by itself
	twoSided                   // an RWLocker
)

func (s *scenario) possible(c Config) bool {
	return (s.needs&server == 0 || c.Server != nil) &&
		(s.needs&inProc == 0 || c.Server == nil) &&
		(s.needs&bubble == 0 || c.Bubble) &&
		(s.needs&realTime == 0 || c.Server != nil && !c.Bubble) &&
		(s.needs&fair == 0 || c.Mode == "fair" || c.Server == nil && c.Mode == "exclusive") &&
		(s.needs&excludes == 0 || c.Mode != readMode) &&
		(s.needs&passesOn == 0 || c.Mode == clientMode) &&
		(s.needs&twoSided == 0 || c.twoSided())
}

// run gives s a backend and checks what it leaves behind.
func (c Config) run(t *testing.T, s scenario) {
	if c.Bubble {
		synctest.Test(t, func(t *testing.T) {
			// The bubble's goroutines all have to end. One of go-redis, which dials a server that was
			// away, looks only once a second whether its client was closed.
			t.Cleanup(func() { time.Sleep(2 * time.Second) })
			s.runIn(newEnv(t, c))
		})
		return
	}
	before := goleak.IgnoreCurrent()
	// The dialler of go-redis looks only once a second whether its client was closed.
	dialler := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	t.Cleanup(func() { goleak.VerifyNone(t, before, dialler) })
	s.runIn(newEnv(t, c))
}

func (s *scenario) runIn(e *env) {
	s.run(e)
	if e.t.Failed() {
		return // what is left behind then tells nothing new
	}
	for _, v := range e.rec.Violations() {
		e.t.Error(v)
	}
	e.checkServerIsClean()
}

// Times of the engine that scenarios count with.
const (
	pollInterval = 750 * time.Millisecond // a waiter that is not seen for three of these is dead
	acceptWindow = 3 * time.Second
	localPasses  = 32 // while another process waits
)

var groups = []struct {
	name      string
	scenarios []scenario
	faults    bool // of connections and servers: with -short only for the plain lock
}{
	{"exclusion", exclusion, false},
	{"reentry", reentry, false},
	{"unlock", unlocking, false},
	{"lease", leases, false},
	{"cancel", cancelling, false},
	{"panic", panics, false},
	{"close", closing, false},
	{"waiters", waiterLimit, false},
	{"fairness", fairness, false},
	{"model", modelled, false},
	{"replay", replays, false},
	{"input", badInput, false},
	{"strangers", strangers, false},
	{"flood", flood, true},
	{"lost reply", lostReplies, true},
	{"silence", silence, true},
	{"connections", connections, true},
	{"half-open", halfOpen, true},
	{"killed process", killedProcesses, false},
	{"stopped process", stoppedProcesses, false},
	{"stopped server", stoppedServer, true},
	{"restarted server", restartedServer, true},
	{"flush", flushes, true},
	{"memory", fullMemory, true},
	{"refusal", refusals, true},
	{"passing refusal", passingRefusals, true},
	{"lasting refusal", lastingRefusals, true},
	{"stepped clock", steppedClock, true},
	{"linearizability", linearizability, false},
	{"first come, first served", firstCome, false},
	{"read-write", readWrite, false},
}
