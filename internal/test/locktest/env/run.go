package env

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// Run runs the scenarios that c's Locker can be put through. The test must not be parallel to others.
func Run(t *testing.T, c Config, groups []Group) {
	if c.Several {
		suite.NeedsFull(t, "several servers take seconds to find each other")
	}
	if c.realTime() {
		c.shared = share(t, c.Server(t)) // skips all scenarios at once if there is none
		c.pace = judge.NewPace(t)
		watch(t, c.pace, c.shared)
		before := goleak.IgnoreCurrent()
		t.Cleanup(func() { goleak.VerifyNone(t, before, Diallers()) }) // those too that no scenario is blamed for
	}
	if c.Bubble {
		defer race.OneProcessor()()
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

// dialler is a function of go-redis that looks only once a second whether its client was closed.
const dialler = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// Diallers has goleak leave out those goroutines of go-redis.
func Diallers() goleak.Option { return goleak.IgnoreAnyFunction(dialler) }

// run gives s a backend and checks what it leaves behind.
func (c Config) run(t *testing.T, s Scenario) {
	if c.Bubble {
		synctest.Test(t, func(t *testing.T) {
			// The bubble's goroutines all have to end. One of go-redis, which dials a server that was
			// away, looks only once a second whether its client was closed.
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
		t.Fatal("it does not say whether it shares its server or has it alone")
	}
	s.runIn(New(t, c))
}

func (s *Scenario) runIn(e *Env) {
	s.Run(e)
	if e.T.Failed() {
		return // what is left behind then tells nothing new
	}
	for _, v := range e.Rec.Violations() {
		e.T.Error(v)
	}
	e.Server.CheckClean()
}
