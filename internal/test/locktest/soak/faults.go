package soak

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
)

// A strike is a kind of fault.
type strike struct {
	name   string
	weight int
	most   time.Duration // maximum duration; 0: an instant
	do     func(s *soak, p *slot) (lift func())
}

// strikes draw the same random numbers whether or not they are possible now, so that a seed repeats them.
var strikes = []strike{
	{"nothing", 5, 0, func(*soak, *slot) func() { return nil }},
	{"child killed", 6, 0, func(s *soak, p *slot) func() {
		if p.n == 0 || p.life.stopped { // the first child survives, for its memory measurements
			return nil
		}
		p.kill()
		return func() {}
	}},
	{"child stopped", 8, soakStop, func(_ *soak, p *slot) func() {
		if p.life.stopped {
			return nil
		}
		p.stop()
		return p.cont
	}},
	{"normal connections killed", 8, 0, func(s *soak, _ *slot) func() { return s.kill("normal") }},
	{"subscriptions killed", 8, 0, func(s *soak, _ *slot) func() { return s.kill("pubsub") }},
	{"scripts flushed", 8, 0, func(s *soak, _ *slot) func() {
		return s.command(func(ctx context.Context) error { return s.e.Server.Admin.ScriptFlush(ctx).Err() })
	}},
	{"server stopped", 8, 400 * time.Millisecond, (*soak).pause},
	{"server stopped for long", 1, soakStop, (*soak).pause},
	{"connections reset", 8, 0, func(_ *soak, p *slot) func() {
		if p.proxy == nil {
			return nil
		}
		p.proxy.Reset()
		return func() {}
	}},
	{"connections refused", 6, 2 * time.Second, proxied((*redistest.Proxy).Off)},
	{"connections half-open", 6, 2 * time.Second, proxied((*redistest.Proxy).Swallow)},
	{"answers late", 8, time.Second, proxied(func(p *redistest.Proxy) { p.Delay(50*time.Millisecond, 50*time.Millisecond) })},
	{"bytes one by one", 4, time.Second, proxied((*redistest.Proxy).Slice)},
	{"slot moved", 8, 0, func(s *soak, _ *slot) func() {
		return s.change(func(c *redistest.Cluster, key string) bool {
			c.Move(key)
			return true
		})
	}},
	{"master deposed", 4, 0, func(s *soak, _ *slot) func() {
		return s.change(func(c *redistest.Cluster, key string) bool {
			master := c.Owner(key)
			if s.faults.deposed[master] { // the others do not vote for it again within twice the node timeout
				return false
			}
			s.faults.deposed[master] = true
			c.Depose(key)
			return true
		})
	}},
}

// proxied disturbs the connections of a child, which has a proxy if there is one server.
func proxied(disturb func(*redistest.Proxy)) func(*soak, *slot) func() {
	return func(_ *soak, p *slot) func() {
		if p.proxy == nil {
			return nil
		}
		disturb(p.proxy)
		return p.proxy.Restore
	}
}

// change changes the node of a key in a Cluster, if do can. This takes a while, so no other fault may be active.
func (s *soak) change(do func(c *redistest.Cluster, key string) bool) func() {
	key := s.keys[s.rng.IntN(len(s.keys))]
	c, ok := s.e.Server.Deployment().(*redistest.Cluster)
	if !ok || len(s.faults.lifts) > 0 || !do(c, s.e.Server.RedisKey(key)) {
		return nil
	}
	return func() {}
}

// faults are the faults of a soak.
type faults struct {
	s      *soak
	counts *env.Tally
	lifts  []lift
	paused bool // the server is paused

	deposed map[int]bool // deposed nodes of a Cluster
}

// A lift is the end of a fault.
type lift struct {
	at time.Duration
	do func()
}

// strike injects a random fault.
func (f *faults) strike(now time.Duration) {
	sum := 0
	for i := range strikes {
		sum += strikes[i].weight
	}
	n, p := f.s.rng.IntN(sum), f.s.slots[f.s.rng.IntN(len(f.s.slots))]
	part := f.s.rng.Float64()
	i := 0
	for ; n >= strikes[i].weight; i++ {
		n -= strikes[i].weight
	}
	k := &strikes[i]
	do := k.do(f.s, p)
	if do == nil {
		f.counts.Add(map[string]int{"nothing": 1})
		return
	}
	f.counts.Add(map[string]int{k.name: 1})
	f.lifts = append(f.lifts, lift{now + time.Duration(part*part*float64(k.most)), do}) // most faults are short
}

// lift ends the faults that are due.
func (f *faults) lift(now time.Duration) {
	f.lifts = slices.DeleteFunc(f.lifts, func(l lift) bool {
		if l.at > now {
			return false
		}
		l.do()
		return true
	})
}

// liftAll ends all faults.
func (f *faults) liftAll() { f.lift(math.MaxInt64) }

// command sends a command to the server.
func (s *soak) command(send func(ctx context.Context) error) func() {
	if s.faults.paused {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.e.Ctx, env.Patience)
	defer cancel()
	if err := send(ctx); err != nil {
		s.t.Errorf("a command of the soak: %v", err)
	}
	return func() {}
}

// kill makes the server break connections, except the one that sends this command.
func (s *soak) kill(kind string) func() {
	return s.command(func(ctx context.Context) error {
		return s.e.Server.Admin.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Err()
	})
}

// pause stops the server.
func (s *soak) pause(*slot) func() {
	if s.faults.paused {
		return nil
	}
	s.faults.paused = true
	s.e.Server.Pause(s.t)
	return func() {
		s.e.Server.Resume(s.t)
		s.faults.paused = false
	}
}
