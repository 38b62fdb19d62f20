// Package soak has a Locker contend in several processes for as long as it is told, while random faults meet
// them.
package soak

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

const (
	soakChildren = 4
	soakWorkers  = 10 // of each child
	soakKeys     = 8
	soakLease    = 2 * time.Second // the longest
	soakWork     = time.Second     // the longest, with a lock
	soakStop     = 2 * soakLease   // the longest, of a child or the server
	soakTick     = 50 * time.Millisecond
	soakFault    = 4                           // ticks from one fault to the next
	soakSecond   = int(time.Second / soakTick) // in ticks
)

const (
	// soakIdle is for how long a key may be free at the worst while a call waits for it: a holder dies
	// or is cut off, and so are all other processes that wait, which are granted the key in turn; their
	// tickets would have been taken for dead, but the server stands still meanwhile.
	soakIdle = soakLease + (soakChildren-1)*env.AcceptWindow + 3*env.PollInterval + soakStop
	// soakStarved is how long a call may wait in all: for all others that may be before it, most of
	// which take no time, and for a few such cases.
	soakStarved = 3 * soakIdle
	// soakLateness is how much later than its context a call may return, on a machine that is busy.
	soakLateness = 5 * time.Second
	// soakDelay is how late a report may be, as children are stopped.
	soakDelay = 2*soakStop + 5*time.Second
	// soakStuck is when a hold must have ended for certain.
	soakStuck = soakWork + soakStop + env.Patience
)

// A soak is child processes that contend for a few keys while all kinds of faults meet them.
type soak struct {
	t      *testing.T
	e      *env.Env
	seed   uint64
	rng    *rand.Rand
	keys   []string
	audit  *judge.Audit
	counts *judge.Tally // of calls, by outcome
	memory memories
	slots  []*slot
	faults faults
}

// Soak has c's Locker contend in several processes for about as long as it is told, while random
// faults meet them, and checks everything that is promised. What a seed repeats is the schedule of
// faults, and what each worker of each child chooses to do; how all that interleaves is up to the
// machine. The test binary's TestMain must call locktest.Main.
func Soak(t *testing.T, c env.Config, length time.Duration, seed uint64) {
	if end, ok := t.Deadline(); ok && time.Until(end) < length+2*env.Patience {
		length = max(time.Until(end)-2*env.Patience, time.Second)
		t.Logf("the soak is cut short to %v by the test's -timeout", length.Round(time.Second))
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
		t: t, seed: seed, faults: faults{counts: judge.NewTally(), deposed: make(map[int]bool)}, rng: rand.New(rand.NewPCG(seed, 0)), audit: judge.NewAudit(), counts: judge.NewTally(),
		e: env.New(t, c),
	}
	s.faults.s = s
	s.e.Ctx, s.e.Soon = t.Context(), time.Second // it is longer, and stranger, than a scenario
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

// run disturbs and watches the children.
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
			s.audit.Blame("%s: a hold has not ended for %v", key, now-since)
			return
		}
	}
}

// end lifts all faults and lets the children come to their ends.
func (s *soak) end() {
	s.faults.liftAll()
	for _, p := range s.slots {
		p.leave()
	}
	s.audit.Settle(math.MaxInt64)
}

// checkWhatIsLeft takes every key once more, behind whatever killed children have left, and then
// nothing must be left.
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
		s.e.Reaped(key) // a child that was killed last is not seen to be dead yet
	}
	s.e.Server.CheckClean()
}

// judge reports what the audit has found.
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
			s.t.Logf("child %d's last words:\n%s", p.n, p.words.String())
		}
	}
}

// summarize says what was done.
func (s *soak) summarize(took time.Duration) {
	s.t.Logf("soak of %v, seed %d: %d holds, longest wait %v, a wanted key free for at most %v, %d violations",
		took.Round(time.Second), s.seed, s.audit.Holds, s.audit.Wait.Round(time.Millisecond),
		s.audit.Idle.Round(time.Millisecond), len(s.audit.Violations)+s.audit.More)
	s.t.Logf("calls: %v", s.counts)
	s.t.Logf("faults: %v", s.faults.counts)
	s.t.Logf("memory: %v", &s.memory)
}
