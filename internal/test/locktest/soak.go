package locktest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/leak"
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
	soakIdle = soakLease + (soakChildren-1)*acceptWindow + 3*pollInterval + soakStop
	// soakStarved is how long a call may wait in all: for all others that may be before it, most of
	// which take no time, and for a few such cases.
	soakStarved = 3 * soakIdle
	// soakLateness is how much later than its context a call may return, on a machine that is busy.
	soakLateness = time.Second
	// soakDelay is how late a report may be, as children are stopped.
	soakDelay = 2*soakStop + 5*time.Second
	// soakStuck is when a hold must have ended for certain.
	soakStuck = soakWork + soakStop + patience
)

// A soak is child processes that contend for a few keys while all kinds of faults meet them.
type soak struct {
	t      *testing.T
	e      *env
	seed   uint64
	rng    *rand.Rand
	keys   []string
	audit  *audit
	counts *tally // of calls, by outcome
	memory memories
	slots  []*slot
	faults faults
}

// Soak has c's Locker contend in several processes for about as long as it is told, while random
// faults meet them, and checks everything that is promised. What a seed repeats is the schedule of
// faults, and what each worker of each child chooses to do; how all that interleaves is up to the
// machine. The test binary's TestMain must call ChildMain.
func Soak(t *testing.T, c Config, length time.Duration, seed uint64) {
	if end, ok := t.Deadline(); ok && time.Until(end) < length+2*patience {
		length = max(time.Until(end)-2*patience, time.Second)
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

func newSoak(t *testing.T, c Config, seed uint64) *soak {
	s := &soak{
		t: t, seed: seed, faults: faults{counts: newTally()}, rng: rand.New(rand.NewPCG(seed, 0)), audit: newAudit(), counts: newTally(),
		e: &env{t: t, tb: t, cfg: c, soon: time.Second, ctx: t.Context(), rec: NewRecorder(time.Second), goroutines: leak.Check(t)},
	}
	s.faults.s = s
	s.e.prefix = fmt.Sprintf("soak%x", seed)
	s.e.server = c.Server(t)
	s.e.admin = s.e.server.NewClient(t)
	t.Cleanup(s.e.checkClosed)
	for i := range soakKeys {
		s.keys = append(s.keys, lockmw.Key("item", fmt.Sprint(i)))
	}
	for i := range soakChildren {
		p := &slot{s: s, n: i, proxy: s.e.server.NewProxy(t)}
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
		now := machineTime(<-tick.C)
		s.faults.lift(now)
		if n%soakFault == 0 {
			s.faults.strike(now)
		}
		if n%soakSecond != 0 {
			continue
		}
		s.audit.settle(now - soakDelay)
		s.memory.sample(s)
		if key, since, ok := s.audit.oldest(); ok && now-since > soakStuck {
			s.audit.blame("%s: a hold has not ended for %v", key, now-since)
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
	s.audit.settle(math.MaxInt64)
}

// checkWhatIsLeft takes every key once more, behind whatever killed children have left, and then
// nothing must be left.
func (s *soak) checkWhatIsLeft() {
	c := s.e.client()
	start := time.Now()
	for _, key := range s.keys {
		_, held, err := c.Lock(s.e.ctx, key, lockmw.WithWait(patience))
		if err == nil {
			err = held.Unlock()
		}
		if err != nil {
			s.audit.blame("%s: at the end: %v", key, err)
		}
	}
	s.t.Logf("the keys could be taken again after %v", time.Since(start).Round(time.Millisecond))
	s.e.checkServerIsClean()
}

// judge reports what the audit has found.
func (s *soak) judge() {
	for _, v := range s.audit.violations {
		s.t.Error(v)
	}
	if s.audit.more > 0 {
		s.t.Errorf("… and %d more violations", s.audit.more)
	}
	if s.audit.idle > soakIdle {
		s.t.Errorf("a key was free for %v while a call waited for it, longer than %v", s.audit.idle, soakIdle)
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
		took.Round(time.Second), s.seed, s.audit.holds, s.audit.wait.Round(time.Millisecond),
		s.audit.idle.Round(time.Millisecond), len(s.audit.violations)+s.audit.more)
	s.t.Logf("calls: %v", s.counts)
	s.t.Logf("faults: %v", s.faults.counts)
	s.t.Logf("memory: %v", &s.memory)
}

// A tally counts by name. Safe for concurrent use.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func newTally() *tally { return &tally{of: make(map[string]int)} }

func (t *tally) add(counts map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range counts {
		t.of[name] += n
	}
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, t.of[name]))
	}
	return strings.Join(parts, ", ")
}
