package verify

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// A fault disturbs a process that holds a lock, or one that works.
type fault string

// The faults.
const (
	kills   fault = "killed"
	pauses  fault = "paused"
	cuts    fault = "cut off"
	silence fault = "silenced"
	delays  fault = "delayed"
	replies fault = "lost replies"
)

var allFaults = []fault{kills, pauses, cuts, silence, delays, replies}

// grace is how long after a disturbance a process may still lack its places in queues.
const grace = 5 * time.Second

const (
	delayBy    = 60 * time.Millisecond
	delayFor   = time.Second
	lostAnswer = 3 // for each fault
)

// strike injects a fault.
func (r *run) strike(f fault) error {
	i := rand.IntN(len(r.members))
	victim := r.members[i]
	heir := r.members[(i+1+rand.IntN(len(r.members)-1))%len(r.members)]
	from := judge.MachineNow()
	victim.disturbed.Begin(from)
	switch f {
	case delays:
		r.count(f)
		victim.order(order{Do: doDelay, For: delayBy})
		pause.For(r.ctx, min(delayFor, r.o.Lease))
		victim.order(order{Do: doRestore})
	case replies:
		r.count(f)
		victim.order(order{Do: doLoseReplies, N: lostAnswer})
		pause.For(r.ctx, min(delayFor, r.o.Lease)/2)
	default:
		r.bereave(f, victim, heir)
	}
	victim.disturbed.End(judge.MachineNow() + grace)
	if f == kills && victim.dead {
		return r.replace(i)
	}
	return nil
}

func (r *run) count(f fault) { r.ledger.note(func(s *Seen) { s.Faults[string(f)]++ }) }

// replace starts a process instead of a killed one.
func (r *run) replace(i int) error {
	if r.ctx.Err() != nil {
		return nil //nolint:nilerr // the run has ended, so no process is needed
	}
	m, err := r.start(r.members[i].number)
	if err != nil {
		return err
	}
	r.members[i] = m
	return m.begin()
}

// bereave disturbs a process that holds a lock for which another process waits. The lock must end with its lease, and the holder
// must learn of the loss.
func (r *run) bereave(f fault, victim, heir *member) {
	r.strikes++
	key := lockmw.Key("probe", strconv.Itoa(r.strikes%8))
	held := victim.ask(key, r.o.Lease+slack, 0)
	defer held.release()
	if r.outcome(held, r.o.Lease+slack).Event != judge.Granted {
		return
	}
	waits := heir.ask(key, r.o.Lease+3*slack, 0)
	defer waits.release()
	if got, ok := r.ledger.await(waits, patience, judge.Queued, judge.Granted, judge.Failed, wrong); !ok || got.Event != judge.Queued {
		return
	}
	switch f {
	case kills:
		victim.kill()
	case pauses:
		if err := victim.child.Pause(r.ctx); err != nil {
			r.unpausable = r.unpausable || errors.Is(err, errors.ErrUnsupported)
			return
		}
	case cuts:
		victim.order(order{Do: doCut})
	case silence:
		victim.order(order{Do: doSilence})
	}
	r.count(f)
	at := judge.MachineNow()
	got := r.outcome(waits, r.o.Lease+3*slack)
	if got.Event == judge.Granted || got.Event == judge.Failed && got.Type == timedOut {
		r.judgeEnd(f, held, at, got)
	}
	// The heir may have died, or the server may have lost the lock, before the lease ended.
	now := judge.MachineNow()
	r.recover(f, victim, held, got.Event == judge.Granted && now >= r.ledger.deadline(held) || now-at > r.o.Lease)
}

// outcome waits for the outcome of an order, whose call waits for at most the given time.
func (r *run) outcome(e *entry, wait time.Duration) report {
	from := judge.MachineNow()
	got, ok := r.ledger.await(e, wait+patience, judge.Granted, judge.Failed, wrong)
	if !ok && r.ctx.Err() == nil && !e.m.hasEnded() && !r.server.troubled(from, judge.MachineNow()) {
		r.ledger.blameFor(Overdue, judge.MachineNow(), "%s: a call did not return within %v after the end of its wait", e.key, patience)
	}
	return got
}

// judgeEnd judges when the lock of a disturbed holder ended. It was disturbed at a time; its last renewal came before.
func (r *run) judgeEnd(f fault, held *entry, at time.Duration, got report) {
	if r.ctx.Err() != nil || r.server.changed(at, got.At, slack) {
		return
	}
	late := tooLate(r.o.Lease, at, got, r.server.delays(), r.pace.Delays(judge.OwnTime(at), judge.OwnTime(got.At)))
	deadline := r.ledger.deadline(held)
	r.ledger.note(func(s *Seen) {
		s.Ends++
		s.LatestEnd = max(s.LatestEnd, got.At-deadline)
	})
	switch {
	case late <= slack:
	case got.Event == judge.Granted && r.o.Replicas > 0: // it may have waited for a replica
	case got.Event == judge.Granted:
		r.ledger.blameFor(NoEnd, got.At, "%s: its holder was %s; the next one was granted %v after the lease", held.key, f, late.Round(time.Millisecond))
	default:
		r.ledger.blameFor(NoEnd, got.At, "%s: its holder was %s; %v after the lease the lock was still taken", held.key, f, late.Round(time.Millisecond))
	}
}

// tooLate returns how much longer than its lease a lock lasted that was renewed for the last time before at. Nobody is blamed for
// times when a process stood still or the server was slow, which may overlap.
func tooLate(lease, at time.Duration, got report, excused ...[]judge.Interval) time.Duration {
	return got.At - at - lease - lease/50 - judge.Within(at, got.At, append(excused, got.Stalls)...)
}

// recover ends the disturbance of a process. If it lasted longer than the lease, the process must learn that it lost its hold.
func (r *run) recover(f fault, victim *member, held *entry, lasted bool) {
	if victim.dead {
		return
	}
	if f == pauses {
		_ = victim.child.Resume() // it may have ended
	}
	unaware := false
	if lasted {
		_, noticed := r.ledger.await(held, patience, judge.Ended)
		unaware = !noticed
	}
	victim.order(order{Do: doRestore})
	if unaware && r.ctx.Err() == nil && !victim.hasEnded() && !r.server.troubled(judge.MachineNow()-grace, judge.MachineNow()) {
		r.ledger.blameFor(Unnoticed, judge.MachineNow(), "%s: its holder was %s and does not know that the lease has ended", held.key, f)
	}
}

// ballastLease is longer than a fail-over takes, so that a hold that ends during one was lost by the servers.
const ballastLease = 40 * time.Second

// ballastEach is the number of locks that each process holds during a fail-over.
const ballastEach = 5

// failOver lets the operator trigger a fail-over while all processes hold locks, and looks at what the servers lose.
func (r *run) failOver(ctx context.Context) error {
	var held, rivals []*entry
	for _, m := range r.members {
		for i := range ballastEach {
			key := lockmw.Key("ballast", strconv.Itoa(m.number), strconv.Itoa(i))
			held = append(held, m.ask(key, patience, ballastLease))
		}
	}
	held = slices.DeleteFunc(held, func(e *entry) bool { return !r.ledger.isGranted(e, patience) })
	before, from := r.server.restarts(), judge.MachineNow()
	err := r.o.Failover(ctx)
	if err == nil {
		r.awaitChange(ctx, before)
	}
	for i, e := range held {
		m := r.members[(i/ballastEach+1)%len(r.members)]
		rivals = append(rivals, m.ask(e.key, slack, ballastLease))
	}
	lost := 0
	for i, e := range held {
		taken := r.ledger.isGranted(rivals[i], slack+grace) // the holder may not know yet
		if _, ended := r.ledger.await(e, time.Millisecond, judge.Ended); ended || taken {
			lost++
		}
	}
	for _, e := range append(held, rivals...) {
		e.release()
	}
	r.ledger.note(func(s *Seen) {
		s.Failovers = r.server.restarts() - before
		s.Ballast, s.BallastLost = len(held), lost
		s.Outage = r.server.late(from, judge.MachineNow())
	})
	return err
}

// awaitChange waits until the servers have changed and answer, or for a while.
func (r *run) awaitChange(ctx context.Context, before int) {
	ctx, cancel := context.WithTimeout(ctx, ballastLease/2)
	defer cancel()
	for ctx.Err() == nil {
		if silent, _ := r.server.outage(); silent == 0 && r.server.restarts() > before {
			break
		}
		pause.For(ctx, askEvery)
	}
	pause.For(ctx, 2*slack) // renewals find out what is lost
}
