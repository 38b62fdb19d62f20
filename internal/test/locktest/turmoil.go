package locktest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var linearizability = []scenario{
	{"of a concurrent history with unknown outcomes", linearizableHistory, alone | costly | sample},
}

const (
	turmoilOperations = 3000 // at least
	turmoilWorkers    = 16
	turmoilCalls      = 10 // of each worker, between two rests
	turmoilFault      = 12 // calls from one fault to the next
)

// A turmoil is many callers of a few keys, whose connections are disturbed meanwhile. It goes by
// rounds, each with clients of its own: only when they are closed is nothing under way for certain.
type turmoil struct {
	e       *env
	seed    uint64
	history *history
	keys    []string
	clients []*client

	over   chan struct{} // closed when the round's calls have returned
	closed chan struct{} // closed when its clients are
	faults sync.WaitGroup

	mu       sync.Mutex // guards what is below
	rng      *rand.Rand
	calls    int
	withheld []*redistest.Fault // commands of this round that have not reached the server
	late     []*redistest.Fault // … of the round before
}

func linearizableHistory(e *env) {
	t := &turmoil{e: e, seed: rand.Uint64(), history: newHistory()}
	t.rng = rand.New(rand.NewPCG(t.seed, 0))
	for range 4 {
		t.keys = append(t.keys, e.key("item"))
	}
	for n := uint64(1); t.history.operations() < turmoilOperations && !e.t.Failed(); n++ {
		t.round(n)
	}
	if wrong := t.history.check(); wrong != "" {
		e.t.Errorf("seed %d: %s", t.seed, wrong)
	}
	t.checkThatItWasHard()
}

// round has all workers make some calls, and rests.
func (t *turmoil) round(n uint64) {
	t.clients = nil
	for _, fair := range []bool{false, true} {
		opts := []lockmw.ClientOption{lockmw.WithUnlockTimeout(200 * time.Millisecond)}
		if fair {
			opts = append(opts, lockmw.WithLocalPasses(0))
		}
		t.clients = append(t.clients, t.e.clientOver(repeats(3), opts...), t.e.clientOver(repeats(-1), opts...))
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
	workers.Wait()
	t.rest()
}

// repeats is an edit for a client that sends again what was lost so many times; -1: not at all.
func repeats(n int) func(*redis.Options) {
	return func(o *redis.Options) {
		o.MaxRetries = n
		// New connections are asked for what these tests do not need, and if one breaks meanwhile the
		// next ones wait for its retry at a mutex: in a bubble for ever, as time does not pass there.
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
}

// call takes and releases a lock, if it can be had. waits and hurry say how probable it is that it
// waits for others, and that its context ends soon.
func (t *turmoil) call(rng *rand.Rand, c *client, waits, hurry float64) {
	limit, wait := 500*time.Millisecond, time.Duration(0)
	if rng.Float64() < hurry {
		limit = between(rng, 0, 10*time.Millisecond)
	}
	if rng.Float64() < waits {
		wait = []time.Duration{lockmw.Forever, between(rng, time.Millisecond, 30*time.Millisecond)}[rng.IntN(2)]
	}
	lease, work := lockmw.WithLease(time.Second), between(rng, 0, time.Millisecond)
	switch p := rng.Float64(); {
	case p < 0.01: // until it is lost
		lease, work = lockmw.WithFixedLease(shortestLease), time.Second
	case p < 0.02: // over several renewals, which may get lost
		lease, work = lockmw.WithLease(shortestLease), 150*time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.e.ctx, limit)
	defer cancel()
	ctx, turn, err := t.history.lock(ctx, c.nth(rng.IntN(2)), t.keys[rng.IntN(len(t.keys))], wait, lease)
	if err != nil {
		return
	}
	passes(ctx, work)
	_ = turn.unlock() // the history has noted what it says
}

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

// disturb is called before each call.
func (t *turmoil) disturb() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	if t.e.server == nil || t.calls%turmoilFault != 0 {
		return
	}
	c, key := t.clients[t.rng.IntN(len(t.clients))], t.e.redisKey(t.keys[t.rng.IntN(len(t.keys))])
	switch p := t.rng.Float64(); {
	case p < 0.3:
		c.wire.LoseReply(key)
	case p < 0.6:
		t.withhold(c, key, between(t.rng, 0, 80*time.Millisecond))
	case p < 0.7 && len(t.late) > 0:
		t.send(t.late[0])
		t.late = t.late[1:]
	case p < 0.8:
		t.cut(c, between(t.rng, 0, 20*time.Millisecond))
	case p < 0.85:
		t.e.admin.ScriptFlush(t.e.ctx)
	case t.e.server.Mini != nil: // it cannot do the following
	case p < 0.93:
		t.e.admin.ClientKillByFilter(t.e.ctx, "TYPE", "pubsub")
	default:
		t.e.admin.ClientKillByFilter(t.e.ctx, "TYPE", "normal")
	}
}

// withhold keeps a command from the server; its connection is dead for a while before it breaks.
func (t *turmoil) withhold(c *client, key string, hangs time.Duration) {
	fault := c.wire.Withhold(key)
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
	t.faults.Go(func() { _, _ = f.Send(t.e.ctx) }) // another fault may meet it
}

// cut has a client without connections for a while.
func (t *turmoil) cut(c *client, lasts time.Duration) {
	c.wire.Cut()
	t.faults.Go(func() {
		t.pass(lasts)
		c.wire.Restore()
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
	close(t.over)
	if t.e.cfg.Bubble {
		// Enough for whatever is cancelled in the background. Where this takes real time, a Client may
		// be closed before, and then nothing can be said of commands that arrive later.
		t.e.pass(10 * time.Second)
	}
	t.mu.Lock()
	if t.e.cfg.Bubble {
		t.late = t.withheld // those before may be older than the server's memory of what is over
	}
	t.withheld = nil
	t.mu.Unlock()
	for _, c := range t.clients {
		if c.redis == nil {
			continue
		}
		if err := c.redis.Close(); err != nil {
			t.e.t.Errorf("Close: %v", err)
		}
	}
	close(t.closed)
	t.faults.Wait()
	for _, c := range t.clients {
		if c.wire != nil {
			c.wire.Cut()
		}
	}
	t.e.checkServerIsClean()
	t.history.rest(t.keys)
}

// checkThatItWasHard makes sure that there was something to find: outcomes in doubt, holds that were
// lost, and busy locks that nothing but a holder excuses.
func (t *turmoil) checkThatItWasHard() {
	h := t.history
	doubts := h.count(func(s *step) bool { return s.kind == stepDoubt })
	lost := h.count(func(s *step) bool { return s.open && s.from.n == 0 })
	unknown := h.count(func(s *step) bool { return s.open && s.from.n != 0 })
	strict := h.strict()
	t.e.tb.Logf("%d operations: %d acquisitions and %d releases of unknown outcome, %d holds lost, %d locks strictly busy",
		h.operations(), doubts, unknown, lost, strict)
	if strict < 20 || lost == 0 || t.e.server != nil && doubts < 100 {
		t.e.t.Errorf("seed %d: too easy a history", t.seed)
	}
}
