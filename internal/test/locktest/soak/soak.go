// Package soak makes a Locker contend in several processes for a given time, while it injects random faults.
package soak

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

const (
	soakChildren = 4
	soakWorkers  = 10 // per child
	soakKeys     = 8
	soakLease    = 2 * time.Second // the longest lease
	soakWork     = time.Second     // the longest work under a lock
	soakStop     = 2 * soakLease   // the longest stop of a child or the server
	soakTick     = 50 * time.Millisecond
	soakFault    = 4                           // ticks between faults
	soakSecond   = int(time.Second / soakTick) // in ticks
)

const (
	// soakIdle is the longest time that a key may be free while a call waits for it. In the worst case the holder dies or is
	// disconnected, all other waiting processes are disconnected too and are granted the key in turn, and the server is
	// stopped, so that it cannot remove their tickets as dead.
	soakIdle = soakLease + (soakChildren-1)*env.AcceptWindow + 3*env.PollInterval + soakStop
	// soakStarved is the longest allowed wait: other calls may be in front, most of which are short, and a few worst cases.
	soakStarved = 3 * soakIdle
	// soakLateness is how late a call may return after its context has ended, on a busy machine.
	soakLateness = 5 * time.Second
	// soakDelay is how late a report may arrive, because children are stopped.
	soakDelay = 2*soakStop + 5*time.Second
	// soakStuck is the age at which a hold must have ended.
	soakStuck = soakWork + soakStop + env.Patience
)

// A soak is a set of child processes that contend for a few keys under all kinds of faults.
type soak struct {
	t      *testing.T
	e      *env.Env
	seed   uint64
	rng    *rand.Rand
	keys   []string
	audit  *Audit
	counts *env.Tally // of calls, by result
	memory memories
	slots  []*slot
	faults faults
}

// Soak makes c's Locker contend in several processes for about the given length, injects random faults, and checks all
// guarantees. A seed repeats the schedule of faults and the plan of each worker, but not how they interleave. The TestMain of
// the test binary must call locktest.Main.
func Soak(t *testing.T, c env.Config, length time.Duration, seed uint64) {
	if end, ok := t.Deadline(); ok && time.Until(end) < length+2*env.Patience {
		length = max(time.Until(end)-2*env.Patience, time.Second)
		t.Logf("the test's -timeout shortens the soak to %v", length.Round(time.Second))
	}
	s := newSoak(t, c, seed)
	start := time.Now()
	s.run(length)
	s.end()
	s.checkWhatIsLeft()
	s.judge()
	s.summarize(time.Since(start))
}

func newSoak(t *testing.T, c env.Config, seed uint64) *soak {
	s := &soak{
		t: t, seed: seed, faults: faults{counts: env.NewTally(), deposed: make(map[int]bool)}, rng: rand.New(rand.NewPCG(seed, 0)), audit: NewAudit(), counts: env.NewTally(),
		e: env.New(t, c),
	}
	s.faults.s = s
	s.e.Ctx, s.e.Soon = t.Context(), time.Second // a soak is longer and harsher than a scenario
	s.e.Rec = s.e.NewRecorder()
	s.e.Server.Prefix = fmt.Sprintf("soak%x", seed)
	for i := range soakKeys {
		s.keys = append(s.keys, lockmw.Key("item", fmt.Sprint(i)))
	}
	for i := range soakChildren {
		p := &slot{s: s, n: i}
		if !c.Several {
			p.proxy = s.e.Server.NewProxy(t)
		}
		s.slots = append(s.slots, p)
		p.start()
		t.Cleanup(func() { p.life.end() })
	}
	return s
}

// run injects faults and watches the children.
func (s *soak) run(length time.Duration) {
	tick := time.NewTicker(soakTick)
	defer tick.Stop()
	end := time.Now().Add(length)
	for n := 1; time.Now().Before(end); n++ {
		now := judge.MachineTime(<-tick.C)
		s.faults.lift(now)
		if n%soakFault == 0 {
			s.faults.strike(now)
		}
		if n%soakSecond != 0 {
			continue
		}
		s.audit.Settle(now - soakDelay)
		s.memory.sample(s)
		if key, since, ok := s.audit.Oldest(); ok && now-since > soakStuck {
			s.audit.Blame("%s: a hold has not ended after %v", key, now-since)
			return
		}
	}
}

// end lifts all faults and lets the children finish.
func (s *soak) end() {
	s.faults.liftAll()
	for _, p := range s.slots {
		p.leave()
	}
	s.audit.Settle(math.MaxInt64)
}

// checkWhatIsLeft takes every key once more, behind the leftovers of killed children. After that nothing may be left.
func (s *soak) checkWhatIsLeft() {
	c := s.e.Client()
	start := time.Now()
	for _, key := range s.keys {
		_, held, err := c.Lock(s.e.Ctx, key, lockmw.WithWait(env.Patience))
		if err == nil {
			err = held.Unlock()
		}
		if err != nil {
			s.audit.Blame("%s: at the end: %v", key, err)
		}
	}
	s.t.Logf("the keys could be taken again after %v", time.Since(start).Round(time.Millisecond))
	for _, key := range s.keys {
		s.e.Reaped(key) // a child that was killed last may not be considered dead yet
	}
	s.e.Server.CheckClean()
}

// judge reports the violations that were found.
func (s *soak) judge() {
	for _, v := range s.audit.Violations {
		s.t.Error(v)
	}
	if s.audit.More > 0 {
		s.t.Errorf("… and %d more violations", s.audit.More)
	}
	if s.audit.Idle > soakIdle {
		s.t.Errorf("a key was free for %v while a call waited for it, longer than %v", s.audit.Idle, soakIdle)
	}
	for _, v := range s.memory.growth() {
		s.t.Error(v)
	}
	if s.t.Failed() {
		for _, p := range s.slots {
			s.t.Logf("output of child %d:\n%s", p.n, p.words.String())
		}
	}
}

// summarize logs the statistics.
func (s *soak) summarize(took time.Duration) {
	s.t.Logf("soak of %v, seed %d: %d holds, longest wait %v, longest idle time of a wanted key %v, %d violations",
		took.Round(time.Second), s.seed, s.audit.Holds, s.audit.Wait.Round(time.Millisecond),
		s.audit.Idle.Round(time.Millisecond), len(s.audit.Violations)+s.audit.More)
	s.t.Logf("calls: %v", s.counts)
	s.t.Logf("faults: %v", s.faults.counts)
	s.t.Logf("memory: %v", &s.memory)
}
