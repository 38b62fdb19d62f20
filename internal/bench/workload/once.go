package workload

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// onceCallers are the numbers of concurrent callers of the workloads of idempotent calls.
var onceCallers = []int{1, 16, 64}

// onces are the workloads of idempotent calls. All numbers of callers take turns, because exponents compare them.
func onces() (list []Workload) {
	for _, n := range onceCallers {
		list = append(list, once(n))
	}
	for _, n := range onceCallers {
		list = append(list, replay(n))
	}
	return append(list, onceFaults)
}

// once: n goroutines of one process make calls with new keys. The call is timed.
func once(n int) Workload {
	return Workload{
		Name: fmt.Sprintf("once%d", n), About: fmt.Sprintf("%d goroutine(s) make idempotent calls with new keys", n),
		Group: "once", Processes: 1, Keys: 1, Wait: library.Short, Long: isMiddle(n),
		Runs: func(l library.Library) bool { return l.Calls != nil && l.Name != "get" },
		work: func(w *Worker) error { return w.calls(n, false) },
	}
}

// replay: n goroutines of one process repeat their first call. The repetition is timed.
func replay(n int) Workload {
	return Workload{
		Name: fmt.Sprintf("replay%d", n), About: fmt.Sprintf("%d goroutine(s) repeat an idempotent call, each its own", n),
		Group: "replay", Processes: 1, Keys: 1, Wait: library.Short, Long: isMiddle(n),
		Runs: func(l library.Library) bool { return repeats(l) || l.Name == "get" },
		work: func(w *Worker) error { return w.calls(n, true) },
	}
}

// isMiddle reports whether a quick run leaves out a number of callers. The first and the last suffice for an exponent.
func isMiddle(n int) bool { return n != onceCallers[0] && n != onceCallers[len(onceCallers)-1] }

// repeats reports whether a library gives a repetition the first answer.
func repeats(l library.Library) bool { return l.Calls != nil && !l.Baseline }

// onceAnswer is the answer of 200 bytes of all calls.
var onceAnswer = strings.Repeat("0123456789", 20)

// A series is the calls of one goroutine.
type series struct {
	caller  library.Caller
	replays bool
	prefix  string // of the IDs, of library.IDSize - idDigits characters
	scope   string
	n       int // calls made

	times []time.Duration
	count int64 // calls within the window
}

// idDigits is the length of the number in an ID.
const idDigits = 9

func newSeries(w *Worker, caller library.Caller, replays bool) series {
	return series{
		caller: caller, replays: replays, scope: w.Key, prefix: (rand.Text() + rand.Text())[:library.IDSize-idDigits],
	}
}

// calls makes calls of n goroutines for the window. It fails if the work did not run exactly once for each key, or if an answer is
// wrong.
func (w *Worker) calls(n int, replays bool) error {
	var effects atomic.Int64
	caller, err := w.library.Calls(w.Config, func(library.Call) ([]byte, error) {
		effects.Add(1)
		return []byte(onceAnswer), nil
	})
	if err != nil {
		return err
	}
	defer caller.Close()
	ctx, cancel := w.context()
	defer cancel()
	all := make([]series, n)
	for i := range all {
		all[i] = newSeries(w, caller, replays)
	}
	const warmUp = 50 * time.Millisecond // connections, scripts
	if err := callAll(ctx, all, warmUp); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	r := &Report{Elapsed: w.Window}
	if err := w.measure(r, func() error { return callAll(ctx, all, w.Window) }); err != nil {
		return err
	}
	var keys int64
	for i := range all {
		s := &all[i]
		r.Latency.Record(s.times...)
		r.Counts = append(r.Counts, s.count)
		r.Pairs += int64(len(s.times))
		keys += s.keys()
	}
	if r.Pairs == 0 {
		return errors.New("not a single call returned")
	}
	if ran := effects.Load(); ran != keys {
		return fmt.Errorf("the work of %d keys ran %d times", keys, ran)
	}
	return w.finish(r)
}

// callAll runs all series for d.
func callAll(ctx context.Context, all []series, d time.Duration) error {
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	end := time.Now().Add(d)
	for i := range all {
		wg.Go(func() { errs[i] = all[i].run(ctx, end) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// run makes calls until end, and at least one: otherwise a goroutine that starts late would have no connection after the warm-up.
func (s *series) run(ctx context.Context, end time.Time) error {
	s.times, s.count = s.times[:0], 0
	for now := time.Now(); len(s.times) == 0 || now.Before(end); {
		start := now
		answer, err := s.caller.Call(ctx, s.next())
		now = time.Now()
		if err == nil && string(answer) != onceAnswer {
			err = fmt.Errorf("the answer %q", answer)
		}
		if err != nil {
			return fmt.Errorf("an idempotent call: %w", err)
		}
		s.times = append(s.times, now.Sub(start))
		if !now.After(end) {
			s.count++
		}
	}
	return nil
}

// next returns the next call.
func (s *series) next() library.Call {
	id := s.prefix + fmt.Sprintf("%0*d", idDigits, s.n)
	if !s.replays {
		s.n++
	}
	return library.Call{Scope: s.scope, ID: id, Body: []byte("two cups of tea")}
}

// keys returns how many keys the calls had.
func (s *series) keys() int64 {
	if s.replays {
		return 1
	}
	return int64(s.n)
}
