package fault

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/history"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

var linearizability = []env.Scenario{
	env.Case("a concurrent history with unknown outcomes is linearizable", func(e *env.Env) { Linearizability(e, nil) }, env.Alone|env.Costly|env.Sample),
}

const (
	turmoilOperations = 3000 // at least
	turmoilQuick      = 1500 // … in the quick suite
	turmoilOverNodes  = 600  // … over several nodes, where a call costs several commands
	turmoilWorkers    = 16
	turmoilCalls      = 10 // per worker and round
	turmoilFault      = 12 // calls between faults
)

// A turmoil runs many callers of a few keys while it disturbs their connections. It runs in rounds with new clients: only
// closing the clients ends all commands in flight.
type turmoil struct {
	e         *env.Env
	meanwhile func(key string)
	length    int // in operations
	seed      uint64
	history   *history.History
	keys      []string
	clients   []*env.Client

	over   chan struct{} // closed when the round's calls have returned
	closed chan struct{} // closed when the round's clients are closed
	faults sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	rng      *rand.Rand
	calls    int
	withheld []*redistest.Fault // commands of this round that have not reached the server
	late     []*redistest.Fault // … of the previous round
}

// Linearizability checks a concurrent history with unknown outcomes. Unless meanwhile is nil, the test's goroutine calls it
// in a loop, each time with one of the keys.
func Linearizability(e *env.Env, meanwhile func(key string)) {
	t := &turmoil{e: e, meanwhile: meanwhile, length: turmoilOperations, seed: rand.Uint64(), history: history.NewHistory()}
	if !suite.Full() {
		t.length = turmoilQuick
	}
	if e.Config.OverNodes != nil {
		t.length, t.history.OverNodes = turmoilOverNodes, true
	}
	t.rng = rand.New(rand.NewPCG(t.seed, 0))
	for range 4 {
		t.keys = append(t.keys, e.Key("item"))
	}
	for n := uint64(1); t.isTooShort() && !e.T.Failed(); n++ {
		t.round(n)
	}
	if wrong := t.history.Check(); wrong != "" {
		e.T.Errorf("seed %d: %s", t.seed, wrong)
	}
	t.checkThatItWasHard()
}

// isTooShort reports whether the history is still too short. On a very busy machine most calls of the usual length may have
// unknown outcomes, so it may grow longer.
func (t *turmoil) isTooShort() bool {
	n := t.history.Operations()
	return n < t.length || n < 3*t.length && !t.wasHard()
}

// round makes each worker do some calls, then calls rest.
func (t *turmoil) round(n uint64) {
	t.clients = nil
	for _, fair := range []bool{false, true} {
		opts := []lockmw.ClientOption{lockmw.WithUnlockTimeout(200 * time.Millisecond)}
		if fair {
			opts = append(opts, lockmw.WithLocalPasses(0))
		}
		t.clients = append(t.clients, t.e.ClientOver(env.Repeats(3), opts...), t.e.ClientOver(env.Repeats(-1), opts...))
	}
	t.over, t.closed = make(chan struct{}), make(chan struct{})
	// Without waiters and short deadlines, only a holder excuses a busy lock.
	waits, hurry := []float64{0, 0.3, 0.7}[n%3], []float64{0, 0.2, 0.2}[n%3]
	var workers sync.WaitGroup
	for i := range turmoilWorkers {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(t.seed, n<<32|uint64(i)))
			for range turmoilCalls {
				t.disturb()
				t.call(rng, t.clients[i%len(t.clients)], waits, hurry)
			}
		})
	}
	go func() {
		workers.Wait()
		close(t.over)
	}()
	for i := 0; t.meanwhile != nil && !t.isOver(); i++ {
		t.meanwhile(t.keys[i%len(t.keys)])
	}
	<-t.over
	t.rest()
}

// isOver reports whether the round's calls have returned.
func (t *turmoil) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// call tries to take and release a lock. waits and hurry are the probabilities that the call waits, and that its context ends
// soon.
func (t *turmoil) call(rng *rand.Rand, c *env.Client, waits, hurry float64) {
	limit, wait := t.e.Ample(500*time.Millisecond), time.Duration(0)
	if rng.Float64() < hurry {
		limit = env.Between(rng, 0, 10*time.Millisecond)
	}
	if rng.Float64() < waits {
		wait = []time.Duration{lockmw.Forever, env.Between(rng, time.Millisecond, 30*time.Millisecond)}[rng.IntN(2)]
	}
	lease, work := lockmw.WithLease(time.Second), env.Between(rng, 0, time.Millisecond)
	switch p := rng.Float64() * float64(t.length) / turmoilOperations; {
	case p < 0.01: // until the hold is lost
		lease, work = lockmw.WithFixedLease(env.MinLease), time.Second
	case p < 0.02: // over several renewals, which may be lost
		lease, work = lockmw.WithLease(env.MinLease), 150*time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.e.Ctx, limit)
	defer cancel()
	l := c.Nth(rng.IntN(2))
	if t.e.Config.Mode == env.PermitMode {
		const n = 3
		l = history.Weighing(semaphore.New(c.Redis, n), 1+rng.IntN(n), n)
	}
	ctx, turn, err := t.history.Lock(ctx, l, t.keys[rng.IntN(len(t.keys))], wait, lease)
	if err != nil {
		return
	}
	env.Sleep(ctx, work)
	_ = turn.Unlock() // the history records the result
}

// disturb injects a fault every turmoilFault calls.
func (t *turmoil) disturb() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	if t.e.Server == nil || t.calls%turmoilFault != 0 {
		return
	}
	c, key := t.clients[t.rng.IntN(len(t.clients))], t.e.Server.RedisKey(t.keys[t.rng.IntN(len(t.keys))])
	switch p := t.rng.Float64(); {
	case p < 0.3:
		c.Wire.LoseReply(key)
	case p < 0.6:
		t.withhold(c, key, env.Between(t.rng, 0, 80*time.Millisecond))
	case p < 0.7 && len(t.late) > 0:
		t.send(t.late[0])
		t.late = t.late[1:]
	case p < 0.8:
		t.cut(c, env.Between(t.rng, 0, 20*time.Millisecond))
	case p < 0.85:
		t.e.Server.Admin.ScriptFlush(t.e.Ctx)
	case t.e.Server.Mini != nil: // miniredis does not support the cases below
	case p < 0.93 || t.meanwhile != nil: // keep the connections of meanwhile
		t.e.Server.Admin.ClientKillByFilter(t.e.Ctx, "TYPE", "pubsub")
	default:
		t.e.Server.Admin.ClientKillByFilter(t.e.Ctx, "TYPE", "normal")
	}
}

// withhold keeps a command from the server. Its connection hangs for a while before it breaks.
func (t *turmoil) withhold(c *env.Client, key string, hangs time.Duration) {
	fault := c.Wire.Withhold(key)
	t.faults.Go(func() {
		select {
		case <-fault.Caught():
		case <-t.closed:
			return
		}
		t.pass(hangs)
		fault.Break()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.withheld = append(t.withheld, fault)
	})
}

// send delivers a command that was withheld in the previous round. Its call has ended, so it must have no effect.
func (t *turmoil) send(f *redistest.Fault) {
	t.faults.Go(func() { _, _ = f.Send(t.e.Ctx) }) // it may meet another fault
}

// cut disconnects a client for a while.
func (t *turmoil) cut(c *env.Client, lasts time.Duration) {
	c.Wire.Cut()
	t.faults.Go(func() {
		t.pass(lasts)
		c.Wire.Restore()
	})
}

// pass waits for d or the end of the round.
func (t *turmoil) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.over:
	}
}

// rest closes the clients and returns when no call is left on the server.
func (t *turmoil) rest() {
	if t.e.Config.Bubble {
		// This is long enough for all cancels in the background. In real time a Client may be closed earlier, and then the
		// effect of late commands is undefined.
		t.e.Pass(10 * time.Second)
	}
	t.mu.Lock()
	if t.e.Config.Bubble {
		t.late = t.withheld // older commands may be older than the done marks
	}
	t.withheld = nil
	t.mu.Unlock()
	for _, c := range t.clients {
		if c.Wire == nil { // the Local stays open
			continue
		}
		if err := c.Close(); err != nil {
			t.e.T.Errorf("Close: %v", err)
		}
	}
	close(t.closed)
	t.faults.Wait()
	for _, c := range t.clients {
		if c.Wire != nil {
			c.Wire.Cut()
		}
	}
	t.e.Server.CheckClean()
	t.history.Rest(t.keys)
}

// wasHard reports whether the history can reveal faults: it has unknown outcomes, lost holds, and busy locks that only a
// holder excuses.
func (t *turmoil) wasHard() bool {
	strict := t.history.Strict() >= 20 || t.history.OverNodes
	return strict && t.lost() > 0 && (t.e.Server == nil || t.doubts() >= 100)
}

func (t *turmoil) doubts() int {
	return t.history.Count(func(s *history.Step) bool { return s.Kind == history.StepDoubt })
}

func (t *turmoil) lost() int {
	return t.history.Count(func(s *history.Step) bool { return s.Lost })
}

// checkThatItWasHard fails the scenario if the history was too easy.
func (t *turmoil) checkThatItWasHard() {
	h := t.history
	unknown := h.Count(func(s *history.Step) bool { return s.Open && !s.Lost })
	t.e.TB.Logf("%d operations: %d acquisitions and %d releases with unknown outcome, %d lost holds, %d busy locks that only a holder excuses",
		h.Operations(), t.doubts(), unknown, t.lost(), h.Strict())
	if !t.wasHard() {
		t.e.T.Errorf("seed %d: the history is too easy", t.seed)
	}
}
