// Package verify tries the promises of locks on a given Redis. Several processes take locks under a scratch prefix, while their
// connections are cut and the processes are paused and killed. The judges of lockmw's own tests judge all calls.
//
//	verify.go    the run
//	worker.go    a process that takes locks, and the orders that it follows
//	call.go      one call of such a process
//	crew.go      the processes from the view of the one that starts them
//	ledger.go    all reports, and what the judges find
//	faults.go    faults, and what must follow
//	server.go    the servers: what they are, when they are slow or change
//	cost.go      the time of locks
//	keys.go      the keys, to remove them
//	result.go    the verdict
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// Options configures Run.
type Options struct {
	Client    redis.UniversalClient // for questions about the server
	Address   json.RawMessage       // for Connect
	Connect   Connect               // as for Main
	Sentinel  bool                  // Address is one of Sentinels
	Prefix    string                // of all keys; unused so far
	For       time.Duration
	Processes int           // at least 2
	With      string        // path of another build of this program, for every second process; "": none
	Lease     time.Duration // of the locks
	Share     float64       // part of the server's time
	Replicas  int           // lockmw.WithReplicas; 0: without

	SlottedKeys bool                        // lockmw.WithSlottedKeys
	Failover    func(context.Context) error // lets the operator trigger a fail-over, and returns after that; nil: none
}

// A run is one call of Run.
type run struct {
	o       Options
	ctx     context.Context
	setup   setup
	server  *watch
	ledger  *ledger
	keys    *keys
	pace    *judge.Pace
	members []*member
	costs   Costs
	nodes   []node

	strikes    int
	unpausable bool
}

// scriptShare is the part of the budget for scripts. The rest is for connections, messages, and questions about the server.
const scriptShare = 0.8

// Run verifies a Redis. If ctx ends it stops early. In any case it ends its processes and removes its keys. The error is about
// a server that cannot be reached or refuses commands; a broken promise is part of the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{o: o, ctx: inner, keys: newKeys(o.Prefix)}
	r.setup = setup{
		Address: o.Address, Prefix: o.Prefix, Lease: o.Lease, Patience: 5*o.Lease + 10*slack, Replicas: o.Replicas, SlottedKeys: o.SlottedKeys,
		Share: o.Share * scriptShare / float64(o.Processes),
	}
	pace, ends := judge.NewPace()
	defer ends()
	r.pace = pace
	r.server = newWatch(o.Client)
	r.ledger = newLedger(r.server, r.keys, r.setup.Patience)
	started := time.Now()
	err := r.measure(inner)
	if err == nil {
		err = r.work(inner)
	}
	r.ledger.settleAll()
	result := r.result(started)
	if result.Interrupted = ctx.Err() != nil; result.Interrupted {
		err = nil
	}
	if left := r.clean(); left != nil && err == nil {
		err = fmt.Errorf("removing the keys below %s: %w", o.Prefix, left)
	}
	if err == nil && !result.Interrupted && result.Holds == 0 && !result.Broken() {
		err = errors.New(r.ledger.problem)
	}
	return result, err
}

// clean removes the keys. It has a limit of its own, because it also runs after an interrupt.
func (r *run) clean() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), patience)
	defer cancel()
	return r.keys.remove(ctx, r.o.Client)
}

// measure measures costs, and learns how long the server works for a script.
func (r *run) measure(ctx context.Context) error {
	const guess = 100 * time.Microsecond
	m, err := r.newMeter(guess)
	if err != nil {
		return err
	}
	defer m.rdb.Close()
	before, _ := masters(ctx, r.o.Client) // without the right to INFO, the round trip bounds the cost
	pairs, err := m.pairs(ctx)
	if err := r.accept(ctx, err); err != nil {
		return err
	}
	after, _ := masters(ctx, r.o.Client)
	r.nodes = after
	r.costs.Pair = costOf(pairs)
	// Contended scripts do more than these. The figures of the server replace this estimate later.
	r.setup.Cost = costOfScript(before, after) * 3 / 2
	if r.setup.Cost == 0 { // the server takes no longer than a round trip
		r.setup.Cost = max(time.Duration(r.costs.Pair.Median*float64(time.Millisecond)/2), 10*time.Microsecond)
	}
	m.budget.setCost(r.setup.Cost)
	took, err := m.handOvers(ctx)
	if err := r.accept(ctx, err); err != nil {
		return err
	}
	r.costs.HandOver = costOf(took)
	r.costs.Wait = costOf(m.waits(ctx, after))
	r.ledger.note(func(s *Seen) { s.Scripts += m.budget.spent() })
	return nil
}

// accept turns an error of a single process into a finding. An error of an unavailable server ends the run.
func (r *run) accept(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, lockmw.ErrLost):
		r.ledger.blameFor(Vanished, judge.MachineNow(), "without any fault: %v", err)
	case isUnavailable(err), errors.Is(err, lockmw.ErrInvalidOption):
		return err
	default:
		r.ledger.blameFor(Unexpected, judge.MachineNow(), "a lock that nobody else wants: %v", err)
	}
	return nil
}

// work runs the processes and injects faults.
func (r *run) work(ctx context.Context) (err error) {
	var wg sync.WaitGroup
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // the processes work until they have left
	defer wg.Wait()
	defer stop()
	wg.Go(func() { r.server.run(watching) })
	defer func() {
		if left := r.leave(); err == nil {
			err = left
		}
	}()
	for i := range r.o.Processes {
		m, err := r.start(i + 1)
		if err != nil {
			return err
		}
		r.members = append(r.members, m)
	}
	for _, m := range r.members {
		if err := m.begin(); err != nil {
			return err
		}
	}
	return r.strikeAll(ctx, time.Now().Add(r.o.For))
}

// strikeAll injects all faults, again and again, until the end. The fail-over comes after half the time, and comes even if a
// fault lasts until the end.
func (r *run) strikeAll(ctx context.Context, end time.Time) error {
	var next []int // of allFaults
	switched := r.o.Failover == nil
	half := time.Now().Add(time.Until(end) / 2)
	for ctx.Err() == nil {
		now := time.Now()
		if !switched && now.After(half) {
			switched = true
			if err := r.failOver(ctx); err != nil {
				return err
			}
			end = end.Add(time.Since(now))
			continue
		}
		if now.After(end) {
			break
		}
		if len(next) == 0 {
			next = rand.Perm(len(allFaults))
		}
		if err := r.strike(allFaults[next[0]]); err != nil {
			return err
		}
		next = next[1:]
		if err := r.check(); err != nil {
			return err
		}
		r.limitKeys(ctx, end)
		pause.For(ctx, min(200*time.Millisecond, time.Until(end)))
	}
	return nil
}

// check ends the run if it has become pointless, and has the judges look at what is complete.
func (r *run) check() error {
	for _, m := range r.members {
		if text := m.crash(); text != "" {
			return ended(text)
		}
	}
	if silent, err := r.server.outage(); silent > patience {
		return err
	}
	if cost := r.server.cost(); cost > 0 {
		r.setup.Cost = cost
		r.orderAll(order{Do: doCost, For: cost})
	}
	r.ledger.settle(judge.MachineNow() - 2*r.o.Lease - 10*slack)
	return nil
}

// limitKeys lets the processes rest while there are too many keys, until the end at most.
func (r *run) limitKeys(ctx context.Context, end time.Time) {
	if r.keys.count() < MaxKeys*8/10 {
		return
	}
	r.orderAll(order{Do: doRest})
	for r.keys.count() > MaxKeys*6/10 && time.Now().Before(end) && ctx.Err() == nil {
		pause.For(ctx, min(time.Second, time.Until(end)))
	}
	r.orderAll(order{Do: doWork})
}

func (r *run) orderAll(o order) {
	for _, m := range r.members {
		m.order(o)
	}
}

// leave ends all processes.
func (r *run) leave() error {
	var wg sync.WaitGroup
	errs := make([]error, len(r.members))
	for i, m := range r.members {
		wg.Go(func() { errs[i] = m.end() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
