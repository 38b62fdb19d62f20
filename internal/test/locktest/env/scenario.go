package env

import (
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// A Scenario is one test that every Locker passes.
type Scenario struct {
	name  string
	Run   func(e *Env)
	needs needs
}

// needs are the requirements and costs of a scenario.
type needs uint

// Requirements of scenarios.
const (
	OnServer   needs = 1 << iota // a server, and so the possibility of several processes
	OneServer                    // only one server: the scenario depends on a single server's behaviour
	OneNode                      // no multi-node lock: the scenario inspects or depends on the data of one node
	InProcess                    // no server
	InBubble                     // exact times
	InRealTime                   // a real server
	Fair                         // first come, first served
	Excludes                     // holds exclude each other
	PassesOn                     // a process passes the lock on internally
	TwoSided                     // an RWLocker
	Permits                      // a semaphore
	Mixes                        // a lock that excludes locks of other kinds on the same key

	// Each scenario that can run in real time needs one of these.
	Shares // a shared server: the scenario touches only its own keys and connections
	Alone  // its own server: the scenario stops, empties, configures or measures it

	// The quick suite runs all shared scenarios for the plain lock on the embedded server. On a real server, and for other
	// kinds, it runs only samples. It runs costly scenarios for the plain lock only. On several servers, the full suite runs
	// samples about servers, fair order or readers.
	Sample
	Costly
)

func (s *Scenario) possible(c Config) bool {
	return (s.needs&OnServer == 0 || c.Server != nil) &&
		(s.needs&(Alone|OneServer) == 0 || !c.Several) &&
		(s.needs&(Alone|OneServer|OneNode) == 0 || c.OverNodes == nil) &&
		(s.needs&InProcess == 0 || c.Server == nil) &&
		(s.needs&InBubble == 0 || c.Bubble) &&
		(s.needs&InRealTime == 0 || c.realTime()) &&
		(s.needs&Fair == 0 || c.Mode == "fair" || c.Mode == PermitMode || c.Server == nil && c.Mode == ClientMode) &&
		(s.needs&Excludes == 0 || c.Mode != ReadMode) &&
		(s.needs&PassesOn == 0 || c.Mode == ClientMode) &&
		(s.needs&Permits == 0 || c.Mode == PermitMode) &&
		(s.needs&Mixes == 0 || c.Mode != PermitMode) &&
		(s.needs&TwoSided == 0 || c.twoSided())
}

// chosen reports whether s belongs to the current suite.
func (s *Scenario) chosen(c Config) bool {
	sample, costly := s.needs&Sample != 0, s.needs&Costly != 0
	own := s.needs&(Fair|TwoSided|Permits) != 0
	plain := c.Mode == ClientMode && c.OverNodes == nil && !c.Layered || c.Server == nil
	switch {
	case c.Several:
		return suite.Several() || sample && (own || s.needs&(OnServer|InRealTime) != 0)
	case suite.Full(): // The race detector is slow. Under it, shared scenarios run for one kind, and on a real server only if they can run there.
		raced := sample && !c.Bubble || (plain || own) && (!c.Bubble || c.Server == nil || s.needs&InBubble != 0)
		return raced || !race.Enabled
	case costly && !plain:
		return false
	case c.OverNodes != nil: // each command goes to several servers
		return sample
	case c.realTime():
		return sample && (plain || own)
	}
	return plain || own || sample
}

// A Group is a set of scenarios about one subject.
type Group struct {
	Name      string
	Scenarios []Scenario
}

// Case makes a Scenario.
func Case(name string, run func(e *Env), needs needs) Scenario {
	return Scenario{name: name, Run: run, needs: needs}
}
