package locktest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

var restartedServer = []scenario{
	{"with every write on its disk loses nothing", restartedComplete, realTime | alone | sample},
	{"with an old snapshot grants nothing to those it remembers wrongly", restartedWithSnapshot, realTime | alone},
	{"without persistence has its waiters back soon", restartedEmpty, realTime | alone},
	{"with every write on its disk goes on under load", func(e *env) { e.loadOverRestarts(onDisk) }, realTime | alone},
	{"with an old snapshot goes on under load", func(e *env) { e.loadOverRestarts(inSnapshot) }, realTime | alone},
	{"without persistence goes on under load", func(e *env) { e.loadOverRestarts(nowhere) }, realTime | alone},
}

// A persistence is what a server finds when it is started again.
type persistence int

const (
	onDisk     persistence = iota // all that it has ever confirmed
	inSnapshot                    // what was there when save was called
	nowhere                       // nothing
)

// persist makes the server, which is new, one of that persistence.
func (e *env) persist(p persistence) {
	e.t.Helper()
	if p == onDisk {
		e.server.Kill()
		e.server.Restart(e.tb, "--appendonly", "yes", "--appendfsync", "always")
	}
}

// save makes a snapshot.
func (e *env) save() {
	e.t.Helper()
	if err := e.admin.Save(e.ctx).Err(); err != nil {
		e.t.Error(err)
	}
}

// restart kills the server and starts it again. passed is as for Recorder.Lose.
func (e *env) restart(p persistence, passed bool) {
	e.t.Helper()
	if p == onDisk {
		e.server.Kill()
	} else {
		e.rec.Lose(passed, func() int64 {
			e.server.Kill()
			return time.Now().UnixMicro() // the server's clock is the machine's, too
		})
	}
	e.server.Restart(e.tb)
}

func restartedComplete(e *env) {
	e.persist(onDisk)
	const lease = 2 * time.Second
	key := e.key("item")
	ctx, held := e.lock(e.client(), key, lockmw.WithLease(lease))
	waiters := e.waitEach(3, key)
	tickets := e.tickets(key)
	e.restart(onDisk, false)
	before := held.Deadline()
	e.eventually(lease, func() string {
		if held.Deadline().After(before) {
			return ""
		}
		return "the lease is not renewed"
	})
	if now := e.tickets(key); !slices.Equal(now, tickets) {
		e.t.Errorf("the tickets were %q and are %q", tickets, now)
	}
	e.unlock(ctx, held)
	e.runsBy(waiters[0], time.Now().Add(pollInterval))
	e.runInOrder(waiters)
}

func restartedWithSnapshot(e *env) {
	const lease = 1500 * time.Millisecond
	a, b, c, key := e.client(), e.client(), e.client(), e.key("item")
	ctx, held := e.lock(a, key, lockmw.WithLease(lease))
	w := e.wait(b, key)
	e.save()
	saved := time.Now()
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
	ctx, held = e.lock(c, key, lockmw.WithLease(lease))
	e.restart(inSnapshot, false) // with a as the holder and b in the queue, who have long gone
	next := e.call(e.ctx, a.rival, key)
	e.runsBy(next, saved.Add(lease+pollInterval)) // b says that it does not wait
	e.lost(ctx, held)
	e.unlock(next.ctx, next.held)
}

func restartedEmpty(e *env) {
	const lease = 3 * time.Second
	key := e.key("item")
	ctx, held := e.lock(e.client(), key, lockmw.WithLease(lease))
	waiters := e.waitEach(3, key)
	e.restart(nowhere, false)
	restarted := time.Now()
	for left := waiters; len(left) > 0; {
		w := e.first(time.Until(restarted.Add(2*pollInterval+e.soon)), left)
		e.unlock(w.ctx, w.held)
		left = without(left, w)
	}
	e.lost(ctx, held)
	if took := e.pace.since(restarted); took > lease/2+e.soon {
		e.t.Errorf("the holder knew only after %v that the server has forgotten its lock", took)
	}
}

// loadOverRestarts restarts the server while four processes contend.
func (e *env) loadOverRestarts(p persistence) {
	const contenders, restarts, lease = 12, 2, time.Second
	e.persist(p)
	clients, sitter, key := e.clients(4), e.client(), e.key("item")
	var stop atomic.Bool
	var turns [contenders]atomic.Int64
	var wg sync.WaitGroup
	for i := range contenders {
		l := clients[i%len(clients)].nth(i / len(clients))
		wg.Go(func() {
			for !stop.Load() {
				if e.turn(l, key, lease) {
					turns[i].Add(1)
				}
			}
		})
	}
	everyoneRuns := func() {
		e.t.Helper()
		var before [contenders]int64
		for i := range turns {
			before[i] = turns[i].Load()
		}
		e.eventually(lease+acceptWindow+2*pollInterval+e.soon, func() string {
			for i := range turns {
				if turns[i].Load() < before[i]+2 { // one of them began after now
					return fmt.Sprintf("contender %d has had no turn", i)
				}
			}
			return ""
		})
	}
	for range restarts {
		everyoneRuns()
		if p == inSnapshot {
			e.save()
			everyoneRuns()
		}
		_, held := e.lock(sitter, key, lockmw.WithLease(lease))
		e.restart(p, true)
		e.pass(lease / 4) // longer than the others need to find the server
		if err := held.Unlock(); err != nil && !isLoss(err) {
			e.t.Errorf("Unlock: %v", err)
		}
	}
	everyoneRuns()
	stop.Store(true)
	wg.Wait()
	e.free(clients[0], key)
}

// turn takes the lock once; false if the server is away.
func (e *env) turn(l lockmw.Locker, key string, lease time.Duration) bool {
	_, held, err := e.rec.Lock(e.ctx, l, key, lockmw.WithLease(lease))
	if errors.Is(err, lockmw.ErrUnavailable) {
		e.pass(10 * time.Millisecond)
		return false
	}
	if err != nil {
		e.t.Errorf("Lock: %v", err)
		e.pass(time.Second)
		return false
	}
	e.pass(time.Millisecond) // the work
	if err := held.Unlock(); err != nil && !isLoss(err) {
		e.t.Errorf("Unlock: %v", err)
	}
	return true
}

// isLoss tells what Unlock may return when the server is away, or has lost its memory.
func isLoss(err error) bool {
	return errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrUnavailable)
}
