package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// onceFaults: two processes make the idempotent calls in which libraries make mistakes, and the mistakes are counted.
var onceFaults = Workload{
	Name: "oncefaults", About: "2 processes count the mistakes of idempotent calls",
	Processes: 2, Keys: int(faultCells), Wait: library.Short, Once: true, Extra: 2 * faultPatience,
	Runs: repeats,
	work: (*Worker).countFaults, lead: leadFaults,
}

// The figures of oncefaults. Simultaneous calls have one key.
const (
	effects = "effects_"

	EffectsOfOne = effects + "of_1_process"   // of simultaneous calls of one process
	EffectsOfTwo = effects + "of_2_processes" // of simultaneous calls of two processes
	Answered     = "answered_share"           // of simultaneous calls of two processes
	AfterCrash   = effects + "after_crash"    // of a call whose process died after its effect, and of repetitions
	AfterError   = effects + "after_error"    // of a call that failed after its effect, and of a repetition
	OtherRequest = "answers_to_other_request" // answers that were given to another request with the same key
	OtherScope   = "answers_to_other_scope"   // answers that were given to another user with the same key
)

const (
	faultCallers  = 8                      // simultaneous calls of a process
	faultLinger   = 500 * time.Millisecond // at most, from the last simultaneous call to the end of the work
	mostWaiting   = 2 * time.Second        // for the last simultaneous call
	faultLease    = 2 * time.Second        // so that repetitions after a crash need not wait longer
	faultPatience = 4 * time.Second        // for repetitions after a crash
	faultPause    = 100 * time.Millisecond // between two of them
)

// The messages of the two processes other than ready and done.
const (
	together = "together"
	answered = "answered" // its data is a number of calls
	crash    = "crash"
	repeat   = "repeat"
)

// A faultCell is a cell of the page, whose turns are counted.
type faultCell int

// The cells. Those before cellArrived count effects of the key of the same number.
const (
	cellOne faultCell = iota
	cellTwo
	cellCrash
	cellError
	cellRequest
	cellScope
	cellArrivedOne
	cellArrivedTwo
	cellEndedOne
	cellEndedTwo
	faultCells
)

// A faultWorker is a process of oncefaults.
type faultWorker struct {
	*Worker
	caller library.Caller
	failed atomic.Bool // the call of cellError has failed once
}

// countFaults works by order: the first process counts, and the second one ends in the middle of a call.
func (w *Worker) countFaults() error {
	f := &faultWorker{Worker: w}
	w.Config.Lease = faultLease
	var err error
	if f.caller, err = w.library.Calls(w.Config, f.effect); err != nil {
		return err
	}
	defer f.caller.Close()
	ctx, cancel := w.context()
	defer cancel()
	if err := w.start(); err != nil {
		return err
	}
	more := make(map[string]float64)
	if w.Config.Index == 0 {
		f.callTogether(ctx, cellOne, cellArrivedOne, cellEndedOne, 2*faultCallers)
		f.repetitions(ctx, more)
	}
	if err := w.parent.Send(ready, nil); err != nil {
		return err
	}
	if err := w.parent.Await(together); err != nil {
		return err
	}
	if err := w.parent.Send(answered, f.callTogether(ctx, cellTwo, cellArrivedTwo, cellEndedTwo, faultCallers)); err != nil {
		return err
	}
	if w.parent.Next() == crash {
		_, err := f.call(ctx, "user", cellCrash, "tea")
		return fmt.Errorf("the process has not ended: the call returned %v", err) //nolint:errorlint // it may be nil
	}
	f.callAgain(ctx)
	for name, cell := range map[string]faultCell{
		EffectsOfOne: cellOne, EffectsOfTwo: cellTwo, AfterCrash: cellCrash, AfterError: cellError,
	} {
		more[name] = float64(w.page.Turns(int(cell)))
	}
	if err := f.check(more); err != nil {
		return err
	}
	return w.finish(&Report{More: more})
}

// check returns an error if a figure is not valid, or if this module makes a mistake.
func (f *faultWorker) check(more map[string]float64) error {
	for name, n := range more {
		most := 0.0 // of answers to others
		if strings.HasPrefix(name, effects) {
			most = 1
			if n < 1 {
				return fmt.Errorf("%s: the work did not run", name)
			}
		}
		if f.library.Ours && n > most {
			return fmt.Errorf("a mistake of lockmw: %s is %v", name, n)
		}
	}
	return nil
}

// leadFaults leads both processes, and lets the second one die.
func leadFaults(_ context.Context, m *Measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	if err := m.crew.Expect(ready); err != nil {
		return err
	}
	if err := m.crew.Send(together); err != nil {
		return err
	}
	total := 0
	for _, member := range m.crew.Members() {
		var n int
		if err := member.Expect(answered, &n); err != nil {
			return err
		}
		total += n
	}
	second := m.crew.Members()[1]
	if err := second.Send(crash); err != nil {
		return err
	}
	if err := m.crew.Bury(second); err != nil {
		return err
	}
	if err := m.crew.Send(repeat); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	m.round.Reports[0].More[Answered] = float64(total) / (2 * faultCallers)
	return nil
}

// call makes a call with the key of a cell.
func (f *faultWorker) call(ctx context.Context, scope string, cell faultCell, body string) (string, error) {
	id := f.Key + strings.Repeat("-", library.IDSize)
	id = fmt.Sprintf("%s%d", id[len("bench:"):][:library.IDSize-1], cell)
	answer, err := f.caller.Call(ctx, library.Call{Scope: scope, ID: id, Body: []byte(body)})
	return string(answer), err
}

// effect is the work of the calls. It finds the cell of a call in its ID.
func (f *faultWorker) effect(c library.Call) ([]byte, error) {
	cell := faultCell(c.ID[library.IDSize-1] - '0')
	f.page.Turn(int(cell), f.Config.Index)
	switch cell {
	case cellOne:
		f.awaitOthers(cellArrivedOne, cellEndedOne)
	case cellTwo:
		f.awaitOthers(cellArrivedTwo, cellEndedTwo)
	case cellCrash:
		if f.Config.Index == 1 {
			os.Exit(0) // the process dies
		}
	case cellError:
		if !f.failed.Swap(true) {
			return nil, errors.New("the work fails after its effect")
		}
	}
	return []byte(c.Scope + " gets " + string(c.Body)), nil
}

// awaitOthers returns when all simultaneous calls have been made, and have had time to reach the server: all others have ended, or
// they wait.
func (f *faultWorker) awaitOthers(arrived, ended faultCell) {
	f.awaitTurns(arrived, 2*faultCallers, mostWaiting)
	f.awaitTurns(ended, 2*faultCallers-1, faultLinger)
}

// awaitTurns returns when a cell counts n turns, or after the limit.
func (f *faultWorker) awaitTurns(cell faultCell, n int64, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for f.page.Turns(int(cell)) < n {
		if library.Pause(ctx, time.Millisecond) != nil {
			return
		}
	}
}

// callTogether makes simultaneous calls with the key of cell, and returns how many were answered.
func (f *faultWorker) callTogether(ctx context.Context, cell, arrived, ended faultCell, callers int) int {
	var wg sync.WaitGroup
	var n atomic.Int64
	for range callers {
		wg.Go(func() {
			f.page.Turn(int(arrived), f.Config.Index)
			got, err := f.call(ctx, "user", cell, "tea")
			f.page.Turn(int(ended), f.Config.Index)
			if err == nil && got == "user gets tea" {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

// repetitions makes calls one after the other, and counts the answers that belong to another call.
func (f *faultWorker) repetitions(ctx context.Context, more map[string]float64) {
	for range 2 {
		_, _ = f.call(ctx, "user", cellError, "tea") // the effects are counted
	}
	wrong := func(name string, cell faultCell, scope, body string) {
		first, err := f.call(ctx, "user", cell, "tea")
		second, _ := f.call(ctx, scope, cell, body)
		more[name] = 0
		if err == nil && second == first {
			more[name] = 1
		}
	}
	wrong(OtherRequest, cellRequest, "user", "coffee")
	wrong(OtherScope, cellScope, "stranger", "tea")
}

// callAgain repeats the call of the process that died, until there is an answer, or its lease has certainly expired.
func (f *faultWorker) callAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, faultPatience)
	defer cancel()
	for {
		if _, err := f.call(ctx, "user", cellCrash, "tea"); err == nil {
			return
		}
		if library.Pause(ctx, faultPause) != nil {
			return
		}
	}
}
