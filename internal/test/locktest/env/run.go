package env

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// Run runs every scenario that applies to c's Locker. The calling test must not be parallel before: Run makes it so where it can.
// Package leak checks each scenario, and TestMain all of them.
func Run(t *testing.T, c Config, groups []Group) {
	if c.Several {
		suite.NeedsFull(t, "several servers take seconds to find each other")
	}
	if c.realTime() {
		if c.External != nil {
			c.shared, c.external = c.External(t)
		}
		if !c.external {
			t.Parallel()
			c.shared = share(t, c.Server(t)) // skips all scenarios if there is no server
		}
		c.pace = newPace(t)
		watch(t, c.pace, c.shared)
	}
	switch {
	case race.Enabled && c.Bubble:
		defer race.OneProcessor()()
	case c.Bubble:
		t.Parallel() // its groups run one after the other, while scenarios on real servers wait
	}
	for _, group := range groups {
		t.Run(group.Name, func(t *testing.T) {
			if c.realTime() {
				t.Parallel()
			}
			for _, s := range group.Scenarios {
				if s.possible(c) && s.chosen(c) {
					t.Run(s.name, func(t *testing.T) { c.run(t, s) })
				}
			}
		})
	}
}

// run runs s on a backend and checks what it leaves behind.
func (c Config) run(t *testing.T, s Scenario) {
	if c.Bubble {
		synctest.Test(t, func(t *testing.T) {
			// All goroutines of the bubble must end. A go-redis goroutine that dials an unreachable server checks only once a second
			// whether its client was closed.
			t.Cleanup(func() { time.Sleep(2 * time.Second) })
			s.runIn(New(t, c))
		})
		return
	}
	t.Parallel()
	switch s.needs & (Shares | Alone) {
	case Shares:
	case Alone:
		c.shared = nil
	default:
		t.Fatal("the scenario needs Shares or Alone")
	}
	s.runIn(New(t, c))
}

func (s *Scenario) runIn(e *Env) {
	s.Run(e)
	if e.T.Failed() {
		return // leftovers are no news then
	}
	for _, v := range e.Rec.Violations() {
		e.T.Error(v)
	}
	e.Server.CheckClean()
}
