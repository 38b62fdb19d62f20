// Package locktest is the conformance suite of the locks: the scenarios that every Locker passes,
// with the faults really injected.
//
//	func TestLocal(t *testing.T) { locktest.Run(t, locktest.Local()) }
//
// Where Run is given a real server some scenarios start child processes, which are copies of the test
// binary, and TestMain has to call Main.
//
// On an embedded server each scenario runs in a testing/synctest bubble with a server of its own, where
// minutes pass at once and times are exact. On a real server the same scenarios run in real time, side
// by side. A scenario says whether it shares that server with others or must have one alone, and whether
// it stands for its group in the quick suite (package suite).
package locktest

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
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

	shared *redistest.Server // of the scenarios that share one; nil: none
	pace   *pace             // nil: they run in bubbles
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

// Run runs the scenarios that c's Locker can be put through. The test must not be parallel to others.
func Run(t *testing.T, c Config) {
	if c.realTime() {
		c.shared = share(t, c.Server(t)) // skips all scenarios at once if there is none
		c.pace = newPace(t)
		dialler := goleak.IgnoreAnyFunction(dialler)
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() { goleak.VerifyNone(t, before, dialler) }) // those too that no scenario is blamed for
	}
	if c.Bubble && race.Enabled {
		// Two threads that run timers of one bubble at the same time make the race detector crash:
		// https://go.dev/issue/78156. With one processor there is but one.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			if c.realTime() {
				t.Parallel()
			}
			for _, s := range group.scenarios {
				if s.possible(c) && s.chosen(c) {
					t.Run(s.name, func(t *testing.T) { c.run(t, s) })
				}
			}
		})
	}
}

// realTime reports whether the scenarios run on a server of its own process.
func (c Config) realTime() bool { return c.Server != nil && !c.Bubble }

// A scenario is one test that every Locker passes.
type scenario struct {
	name  string
	run   func(e *env)
	needs needs
}

// needs are what a scenario cannot do without, and what it costs.
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

	// Every scenario that can run in real time needs one of these.
	shares // a server that others use meanwhile: it touches nothing but its own keys and connections
	alone  // one of its own: it stops, empties, configures or measures it

	// The quick suite runs in real time what is a sample, and what is costly for the plain lock only.
	sample
	costly
)

func (s *scenario) possible(c Config) bool {
	return (s.needs&server == 0 || c.Server != nil) &&
		(s.needs&inProc == 0 || c.Server == nil) &&
		(s.needs&bubble == 0 || c.Bubble) &&
		(s.needs&realTime == 0 || c.realTime()) &&
		(s.needs&fair == 0 || c.Mode == "fair" || c.Server == nil && c.Mode == clientMode) &&
		(s.needs&excludes == 0 || c.Mode != readMode) &&
		(s.needs&passesOn == 0 || c.Mode == clientMode) &&
		(s.needs&twoSided == 0 || c.twoSided())
}

// chosen reports whether s belongs to the suite that runs.
func (s *scenario) chosen(c Config) bool {
	return suite.Full() ||
		(s.needs&sample != 0 || !c.realTime()) &&
			(s.needs&costly == 0 || c.Mode == clientMode)
}

// dialler is a function of go-redis that looks only once a second whether its client was closed.
const dialler = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

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
	t.Parallel()
	switch s.needs & (shares | alone) {
	case shares:
	case alone:
		c.shared = nil
	default:
		t.Fatal("it does not say whether it shares its server or has it alone")
	}
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

// brief is a short wait, in which a server that is busy answers all the same.
const brief = 250 * time.Millisecond

// Times of the engine that scenarios count with.
const (
	pollInterval = 750 * time.Millisecond // a waiter that is not seen for three of these is dead
	acceptWindow = 3 * time.Second
	localPasses  = 32 // while another process waits
)

// fewer is how often a scenario repeats what it would repeat n times, but for the race detector.
func fewer(n int) int {
	if race.Enabled {
		return n / 4
	}
	return n
}

var groups = []struct {
	name      string
	scenarios []scenario
}{
	{"exclusion", exclusion},
	{"reentry", reentry},
	{"unlock", unlocking},
	{"lease", leases},
	{"cancel", cancelling},
	{"ended context", endedContexts},
	{"panic", panics},
	{"guarded function", guarded},
	{"close", closing},
	{"waiters", waiterLimit},
	{"fairness", fairness},
	{"model", modelled},
	{"replay", replays},
	{"input", badInput},
	{"strangers", strangers},
	{"flood", flood},
	{"lost reply", lostReplies},
	{"silence", silence},
	{"connections", connections},
	{"half-open", halfOpen},
	{"killed process", killedProcesses},
	{"stopped process", stoppedProcesses},
	{"stopped server", stoppedServer},
	{"restarted server", restartedServer},
	{"flush", flushes},
	{"memory", fullMemory},
	{"refusal", refusals},
	{"retry", retries},
	{"passing refusal", passingRefusals},
	{"lasting refusal", lastingRefusals},
	{"stepped clock", steppedClock},
	{"linearizability", linearizability},
	{"first come, first served", firstCome},
	{"read-write", readWrite},
}
