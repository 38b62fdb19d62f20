package fault

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

var linearizability = []env.Scenario{
	env.Case("of a concurrent history with unknown outcomes", func(e *env.Env) { Linearizability(e, nil) }, env.Alone|env.Costly|env.Sample),
}

const (
	turmoilOperations = 3000 // at least
	turmoilQuick      = 1500 // … in the quick suite
	turmoilOverNodes  = 600  // the same of locks over several nodes, each of which is so many commands
	turmoilWorkers    = 16
	turmoilCalls      = 10 // of each worker, between two rests
	turmoilFault      = 12 // calls from one fault to the next
)

// A turmoil is many callers of a few keys, whose connections are disturbed meanwhile. It goes by
// rounds, each with clients of its own: only when they are closed is nothing under way for certain.
type turmoil struct {
	e         *env.Env
	meanwhile func(key string)
	length    int // in operations
	seed      uint64
	history   *judge.History
	keys      []string
	clients   []*env.Client

	over   chan struct{} // closed when the round's calls have returned
	closed chan struct{} // closed when its clients are
	faults sync.WaitGroup

	mu       sync.Mutex // guards what is below
	rng      *rand.Rand
	calls    int
	withheld []*redistest.Fault // commands of this round that have not reached the server
	late     []*redistest.Fault // … of the round before
}

// Linearizability checks a concurrent history with unknown outcomes. What is done to one of its keys meanwhile, again and
// again, is done by the test's own goroutine; nil: nothing.
func Linearizability(e *env.Env, meanwhile func(key string)) {
	t := &turmoil{e: e, meanwhile: meanwhile, length: turmoilOperations, seed: rand.Uint64(), history: judge.NewHistory()}
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
	for n := uint64(1); t.goesOn() && !e.T.Failed(); n++ {
		t.round(n)
	}
	if wrong := t.history.Check(); wrong != "" {
		e.T.Errorf("seed %d: %s", t.seed, wrong)
	}
	t.checkThatItWasHard()
}

// goesOn reports whether the history is too short. It may become longer on a machine so busy that little but
// doubts came of the usual number of calls.
func (t *turmoil) goesOn() bool {
	n := t.history.Operations()
	return n < t.length || n < 3*t.length && !t.wasHard()
}

// round has all workers make some calls, and rests.
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
	// Where nobody waits and nobody is in a hurry, little else than a holder excuses a busy lock.
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

// call takes and releases a lock, if it can be had. waits and hurry say how probable it is that it
// waits for others, and that its context ends soon.
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
	case p < 0.01: // until it is lost
		lease, work = lockmw.WithFixedLease(judge.ShortestLease), time.Second
	case p < 0.02: // over several renewals, which may get lost
		lease, work = lockmw.WithLease(judge.ShortestLease), 150*time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.e.Ctx, limit)
	defer cancel()
	l := c.Nth(rng.IntN(2))
	if t.e.Config.Mode == env.PermitMode {
		const n = 3
		l = judge.Weighing(semaphore.New(c.Redis, n), 1+rng.IntN(n), n)
	}
	ctx, turn, err := t.history.Lock(ctx, l, t.keys[rng.IntN(len(t.keys))], wait, lease)
	if err != nil {
		return
	}
	env.Passes(ctx, work)
	_ = turn.Unlock() // the history has noted what it says
}

// disturb is called before each call.
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
	case t.e.Server.Mini != nil: // it cannot do the following
	case p < 0.93 || t.meanwhile != nil: // whose own connections are to last
		t.e.Server.Admin.ClientKillByFilter(t.e.Ctx, "TYPE", "pubsub")
	default:
		t.e.Server.Admin.ClientKillByFilter(t.e.Ctx, "TYPE", "normal")
	}
}

// withhold keeps a command from the server; its connection is dead for a while before it breaks.
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

// send has the server get a command that was withheld in the round before. Whatever it is about is
// over, and it must do nothing.
func (t *turmoil) send(f *redistest.Fault) {
	t.faults.Go(func() { _, _ = f.Send(t.e.Ctx) }) // another fault may meet it
}

// cut has a client without connections for a while.
func (t *turmoil) cut(c *env.Client, lasts time.Duration) {
	c.Wire.Cut()
	t.faults.Go(func() {
		t.pass(lasts)
		c.Wire.Restore()
	})
}

// pass returns after d, or when the round is over.
func (t *turmoil) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.over:
	}
}

// rest closes the clients and returns when the server knows of no call any more.
func (t *turmoil) rest() {
	if t.e.Config.Bubble {
		// Enough for whatever is cancelled in the background. Where this takes real time, a Client may
		// be closed before, and then nothing can be said of commands that arrive later.
		t.e.Pass(10 * time.Second)
	}
	t.mu.Lock()
	if t.e.Config.Bubble {
		t.late = t.withheld // those before may be older than the server's memory of what is over
	}
	t.withheld = nil
	t.mu.Unlock()
	for _, c := range t.clients {
		if c.Wire == nil { // the one within this process goes on
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

// wasHard reports whether there was something to find: outcomes in doubt, holds that were lost, and busy
// locks that nothing but a holder excuses.
func (t *turmoil) wasHard() bool {
	strict := t.history.Strict() >= 20 || t.history.OverNodes
	return strict && t.lost() > 0 && (t.e.Server == nil || t.doubts() >= 100)
}

func (t *turmoil) doubts() int {
	return t.history.Count(func(s *judge.Step) bool { return s.Kind == judge.StepDoubt })
}

func (t *turmoil) lost() int {
	return t.history.Count(func(s *judge.Step) bool { return s.Lost })
}

// checkThatItWasHard fails the scenario otherwise.
func (t *turmoil) checkThatItWasHard() {
	h := t.history
	unknown := h.Count(func(s *judge.Step) bool { return s.Open && !s.Lost })
	t.e.TB.Logf("%d operations: %d acquisitions and %d releases of unknown outcome, %d holds lost, %d locks strictly busy",
		h.Operations(), t.doubts(), unknown, t.lost(), h.Strict())
	if !t.wasHard() {
		t.e.T.Errorf("seed %d: too easy a history", t.seed)
	}
}
