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

// needs are what a scenario cannot do without, and what it costs.
type needs uint

// What a scenario may need.
const (
	OnServer   needs = 1 << iota // a server, and with it several processes
	OneServer                    // not several of them: it counts on what one of them does
	OneNode                      // one that has the lock by itself: it looks at what is there, or counts on what becomes of it
	InProcess                    // no server
	InBubble                     // exact times
	InRealTime                   // a server of its own process
	Fair                         // a Locker that is first come, first served
	Excludes                     // one whose holds exclude each other
	PassesOn                     // one that a process passes on by itself
	TwoSided                     // an RWLocker
	Permits                      // a semaphore
	Mixes                        // a lock, which locks of other kinds exclude on the same key

	// Every scenario that can run in real time needs one of these.
	Shares // a server that others use meanwhile: it touches nothing but its own keys and connections
	Alone  // one of its own: it stops, empties, configures or measures it

	// Of the scenarios that all kinds of locks share, the quick suite runs all for the plain lock on the embedded server,
	// but on a real one and for other kinds those that are a sample. What is costly it runs for the plain lock only. On
	// several servers the full suite runs those samples that are about servers, fair order or readers.
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

// chosen reports whether s belongs to the suite that runs.
func (s *Scenario) chosen(c Config) bool {
	sample, costly := s.needs&Sample != 0, s.needs&Costly != 0
	own := s.needs&(Fair|TwoSided|Permits) != 0
	plain := c.Mode == ClientMode && c.OverNodes == nil || c.Server == nil
	switch {
	case c.Several:
		return suite.Several() || sample && (own || s.needs&(OnServer|InRealTime) != 0)
	case suite.Full(): // under the slow race detector what all kinds have in common runs for one of them, and what runs on a real server too only there
		raced := sample && !c.Bubble || (plain || own) && (!c.Bubble || c.Server == nil || s.needs&InBubble != 0)
		return raced && !suite.Unraced() || !raced && !race.Enabled
	case costly && !plain:
		return false
	case c.OverNodes != nil: // each command goes to several servers
		return sample
	case c.realTime():
		return sample && (plain || own)
	}
	return plain || own || sample
}

// A Group is scenarios about one thing.
type Group struct {
	Name      string
	Scenarios []Scenario
}

// Case makes a Scenario.
func Case(name string, run func(e *Env), needs needs) Scenario {
	return Scenario{name: name, Run: run, needs: needs}
}
