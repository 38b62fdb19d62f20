package interrupt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

// A Fate is what happens to a process between two steps.
type Fate string

// The fates.
const (
	Kill Fate = "kill -9"
	Stop Fate = "SIGSTOP beyond the lease"
)

// A Stage is where one call is interrupted.
type Stage struct {
	Spec    any                      // of the child that does the call
	Key     string                   // of the call
	Repeat  Call                     // does the call in this process, and waits longer than a lease for a run in flight
	Effects func() ([]Effect, error) // of the key
	Once    bool                     // the effect must not happen twice
	Final   []Kind                   // what a repetition may get that comes last
}

// A Result is what became of one interrupted call.
type Result struct {
	Point    string // where it was interrupted
	Outcomes []Outcome
	Effects  []Effect
	Faults   []string
}

// String returns everything about the result.
func (r *Result) String() string {
	return fmt.Sprintf("interrupted %s: faults %q, outcomes %v, effects %v", r.Point, r.Faults, r.Outcomes, r.Effects)
}

// Check reports the faults of results. Some result must belong to each point of each of these steps.
func Check(t testing.TB, results []Result, steps ...string) {
	t.Helper()
	interruptions := make(map[string]int)
	for _, r := range results {
		interruptions[r.Point]++
		if len(r.Faults) > 0 {
			t.Error(&r)
		}
	}
	for _, step := range steps {
		for _, point := range []string{"before " + step, "after " + step} {
			if interruptions[point]--; interruptions[point] < 0 {
				t.Errorf("too few calls were interrupted %s", point)
			}
		}
	}
}

// ahead is how many children start before the first of them is waited for: many at a time would lose their locks on a busy machine.
const ahead = 3

// Lease is the lease for calls that Play interrupts. It is short, but a process on a busy machine must not lose its lock.
const Lease = 2 * time.Second

// Play interrupts a call at each of its points, each time in another process and with another key. It repeats the call, in this
// process, while the first one is dead or stopped, and again when that continues. stage returns the Stage for a number from 0 on. A
// call that has no interruption tells Play which points there are.
func Play(t testing.TB, fate Fate, stage func(n int) Stage) (results []Result) {
	t.Helper()
	trial := newPlayer(t, fate, stage(0), place{})
	points, halted := trial.reach()
	if halted || trial.outcomes[0].Kind != Success {
		t.Fatalf("a call without an interruption: %v", trial.outcomes)
	}
	var all, interrupted []*player
	reach := func(p *player) {
		if _, halted := p.reach(); halted { // otherwise the trial had a step that this call has not
			p.interrupt()
			interrupted = append(interrupted, p)
		}
	}
	for i, at := range places(points) {
		all = append(all, newPlayer(t, fate, stage(i+1), at))
		if i >= ahead {
			reach(all[i-ahead])
		}
	}
	for _, p := range all[max(0, len(all)-ahead):] {
		reach(p)
	}
	repeatAll(interrupted)
	if fate == Stop {
		for _, p := range interrupted {
			p.child.Resume(t)
			p.child.Order(order{Proceed: true})
			p.await()
		}
	}
	for range 2 {
		repeatAll(interrupted)
	}
	for _, p := range interrupted {
		results = append(results, p.judge())
	}
	return results
}

// A player interrupts one call.
type player struct {
	Stage
	t        testing.TB
	fate     Fate
	child    *redistest.Child
	at       place
	outcomes []Outcome
}

// newPlayer starts a child and its call.
func newPlayer(t testing.TB, fate Fate, s Stage, at place) *player {
	t.Helper()
	p := &player{Stage: s, t: t, fate: fate, at: at, child: redistest.StartChild(t, s.Spec)}
	p.child.Order(order{Key: s.Key + "-warm"}) // it connects
	p.child.Order(order{Key: s.Key, Halt: at})
	return p
}

// reach waits until the call of the child halts or ends.
func (p *player) reach() (points []string, halted bool) {
	p.t.Helper()
	p.await()
	p.outcomes = nil // of the call that only connects
	return p.await()
}

// patience bounds waits for a child and for the end of a lease.
const patience = time.Minute

// await waits for a report.
func (p *player) await() (points []string, halted bool) {
	p.t.Helper()
	select {
	case raw, ok := <-p.child.Reports():
		var r report
		if !ok || json.Unmarshal(raw, &r) != nil {
			p.t.Fatalf("a child ended, or sent %q", raw)
		}
		if r.Halted {
			return nil, true
		}
		p.outcomes = append(p.outcomes, *r.Outcome)
		return r.Points, false
	case <-time.After(patience):
		p.t.Fatalf("a child does not answer")
	}
	return nil, false
}

func (p *player) interrupt() {
	p.t.Helper()
	if p.fate == Kill {
		p.child.Kill()
	} else {
		p.child.Pause(p.t)
	}
}

// repeatAll repeats all calls at the same time.
func repeatAll(players []*player) {
	var wg sync.WaitGroup
	for _, p := range players {
		wg.Go(p.repeat)
	}
	wg.Wait()
}

// repeat repeats the call. After the end of its process no run is in flight for longer than a lease.
func (p *player) repeat() {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	stopped := p.fate == Stop && len(p.outcomes) == 0 // it may keep a row of a database locked
	for {
		o := OutcomeOf(p.Repeat(ctx, p.Key))
		if o.Kind != InFlight || stopped || ctx.Err() != nil {
			p.outcomes = append(p.outcomes, o)
			return
		}
		<-pause.C
	}
}

func (p *player) judge() Result {
	p.t.Helper()
	effects, err := p.Effects()
	if err != nil {
		p.t.Error(err)
	}
	r := Result{Point: p.at.Point, Outcomes: p.outcomes, Effects: effects, Faults: Judge(p.outcomes, effects, p.Once)}
	if last := p.outcomes[len(p.outcomes)-1]; !slices.Contains(p.Final, last.Kind) {
		r.Faults = append(r.Faults, fmt.Sprintf("the last repetition got: %v", last))
	}
	return r
}
