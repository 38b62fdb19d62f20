package interrupt

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

// A Storm makes many clients in several processes call for the same keys, while processes are killed and stopped, and Redis is
// restarted. Each client goes from key to key.
type Storm struct {
	Clients, Keys, Retries int                                 // each client calls for each key as often as Retries says
	Limit                  time.Duration                       // after which the storm ends early
	Spec                   any                                 // of the children; their calls do not wait, as tickets of the dead delay others
	Lease                  time.Duration                       // of their locks
	Redis                  *redistest.Server                   // must keep its data over a restart
	Effects                func() (map[string][]Effect, error) // by key
	Once                   func(key string) bool               // the effect must not happen twice
}

const (
	stormChildren = 4
	stormTick     = 150 * time.Millisecond // between faults
)

// A Toll is what a Storm has counted.
type Toll struct {
	Keys   int            // that were called for
	Kinds  map[Kind]int   // of outcomes
	Events map[string]int // kills, stops and restarts
	Faults map[string]int // keys with a fault that Judge finds
	// Repeated counts the keys whose effect happened more than once, whether it may or not.
	Repeated int
	Samples  []string // some faults, and some calls that failed
}

// String returns the counts in one line.
func (toll *Toll) String() string {
	calls := 0
	for _, n := range toll.Kinds {
		calls += n
	}
	return fmt.Sprintf("%d keys, %d calls (%s), %s: %d contradicting answers, %d forbidden and %d permitted double effects, other faults %v",
		toll.Keys, calls, counts(toll.Kinds), counts(toll.Events), toll.Faults[Contradiction], toll.Faults[DoubleEffect],
		toll.Repeated-toll.Faults[DoubleEffect], counts(toll.others()))
}

func (toll *Toll) others() map[string]int {
	others := maps.Clone(toll.Faults)
	delete(others, Contradiction)
	delete(others, DoubleEffect)
	return others
}

func counts[K ~string](of map[K]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}

// A gale is a Storm under way.
type gale struct {
	*Storm
	t    testing.TB
	rand *rand.Rand

	mu   sync.Mutex // guards the fields below
	toll Toll
	seen map[string]map[Outcome]bool // by key; without texts
}

// Run runs the storm, and returns what it has counted.
func (s *Storm) Run(t testing.TB) *Toll {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := &gale{
		Storm: s, t: t, rand: rand.New(rand.NewPCG(seed, 0)), seen: make(map[string]map[Outcome]bool),
		toll: Toll{Kinds: make(map[Kind]int), Events: make(map[string]int), Faults: make(map[string]int)},
	}
	walkers := make([]*walker, stormChildren)
	for i := range walkers {
		walkers[i] = g.start(0)
	}
	tick, limit := time.NewTicker(stormTick), time.NewTimer(s.Limit)
	defer tick.Stop()
	defer limit.Stop()
	for i, over := 0, false; i < len(walkers) && !over; {
		select {
		case <-walkers[i].walked:
			i++
		case <-tick.C:
			g.disturb(walkers)
		case <-limit.C:
			over = true
		}
	}
	for _, w := range walkers {
		w.child.End()
		<-w.ended
	}
	g.judge()
	return &g.toll
}

// A walker is a child and its clients.
type walker struct {
	child  *redistest.Child
	walked chan struct{} // closed when its clients are done
	ended  chan struct{} // closed after its last report
	at     int           // the greatest number of a key; valid after the last report
}

func (g *gale) start(from int) *walker {
	w := &walker{child: redistest.StartChild(g.t, g.Spec), walked: make(chan struct{}), ended: make(chan struct{}), at: from}
	w.child.Order(order{Walk: &walk{From: from, Keys: g.Keys, Retries: g.Retries, Clients: g.Clients / stormChildren}})
	go func() {
		defer close(w.ended)
		for raw := range w.child.Reports() {
			var r report
			if err := json.Unmarshal(raw, &r); err != nil {
				g.t.Errorf("invalid report: %s", raw)
				continue
			}
			if r.Walked {
				close(w.walked)
				continue
			}
			w.at = max(w.at, r.At)
			g.note(StormKey(r.At), *r.Outcome)
		}
	}()
	return w
}

func (g *gale) note(key string, o Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.toll.Kinds[o.Kind]++
	if o.Kind == Failed {
		g.sample(o.Text)
	}
	if g.seen[key] == nil {
		g.seen[key] = make(map[Outcome]bool)
	}
	g.seen[key][Outcome{Kind: o.Kind, Answer: o.Answer}] = true
}

func (g *gale) sample(text string) {
	if len(g.toll.Samples) < 10 {
		g.toll.Samples = append(g.toll.Samples, text)
	}
}

// disturb does one fault.
func (g *gale) disturb(walkers []*walker) {
	g.t.Helper()
	i := g.rand.IntN(len(walkers))
	w := walkers[i]
	select {
	case <-w.walked:
		return
	default:
	}
	switch n := g.rand.IntN(10); {
	case n < 5:
		g.count("kills")
		w.child.Kill()
		<-w.ended
		walkers[i] = g.start(w.at)
	case n < 9:
		g.count("stops")
		w.child.Pause(g.t)
		<-time.After(g.Lease + time.Duration(g.rand.Int64N(int64(g.Lease))))
		w.child.Resume(g.t)
	default:
		g.count("restarts of Redis")
		g.Redis.Kill()
		g.Redis.Restart(g.t)
	}
}

func (g *gale) count(event string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.toll.Events[event]++
}

func (g *gale) judge() {
	g.t.Helper()
	effects, err := g.Effects()
	if err != nil {
		g.t.Fatal(err)
	}
	g.toll.Keys = len(g.seen)
	for key, seen := range g.seen {
		if len(effects[key]) > 1 {
			g.toll.Repeated++
		}
		outcomes := slices.Collect(maps.Keys(seen))
		for _, fault := range Judge(outcomes, effects[key], g.Once(key)) {
			g.toll.Faults[fault]++
			g.sample(fmt.Sprintf("%s: %s, outcomes %v, effects %v", key, fault, outcomes, effects[key]))
		}
	}
}
