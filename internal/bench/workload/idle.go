package workload

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// idle: n goroutines of one process wait for a key that another process holds. The commands of both processes are counted while
// all wait.
func idle(name string, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d goroutines wait for a key that another process holds", n),
		Processes: 2, Keys: 1, Wait: library.Long, Runs: contends, Once: true,
		Window: func(d time.Duration) time.Duration { return max(5*d, 1500*time.Millisecond) },
		work:   func(w *Worker) error { return w.holdOrWait(n) },
		lead:   leadWaiters,
	}
}

// crowd is idle with so many waiters that the cost of each one shows. Libraries that poll are left out: the figure would only
// show how many tries the server can refuse.
func crowd(name string, n int) Workload {
	w := idle(name, n)
	w.Runs = func(l library.Library) bool { return contends(l) && l.Wakes }
	w.Window = func(d time.Duration) time.Duration { return max(d, 500*time.Millisecond) }
	return w
}

// enoughToWeigh is the number of waiters from which the rest of a process, such as connections, is negligible.
const enoughToWeigh = 10_000

// holdOrWait holds the key in the first process, and waits for it in the second.
func (w *Worker) holdOrWait(n int) error {
	locker, err := w.open()
	if err != nil {
		return err
	}
	defer locker.Close()
	if w.Config.Index == 0 {
		return w.holdMeanwhile(locker)
	}
	// Connections, and for some libraries a subscription, are made before counting begins.
	warm, err := locker.Lock(context.Background(), w.key(1))
	if err != nil {
		return err
	}
	if err := warm.Unlock(); err != nil {
		return err
	}
	time.Sleep(settles)
	return w.waitTogether(locker, n)
}

// settles is how long a process has after its first lock for work that it does only once: after a second lockmw checks the kind
// of server.
const settles = 1500 * time.Millisecond

func (w *Worker) holdMeanwhile(locker library.Locker) error {
	hold, err := locker.Lock(context.Background(), w.key(0))
	if err != nil {
		return err
	}
	w.page.Enter(0)
	time.Sleep(settles)
	if err := w.start(); err != nil {
		return err
	}
	if err := w.parent.Await(finish); err != nil {
		return err
	}
	w.page.Leave(0)
	return errors.Join(hold.Unlock(), w.finish(&Report{}))
}

// waitTogether runs n goroutines that wait until the order to finish.
func (w *Worker) waitTogether(locker library.Locker, n int) error {
	if err := w.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
	defer cancel()
	before := weigh()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if hold, err := locker.Lock(ctx, w.key(0)); err == nil {
				w.page.Enter(0) // a violation: the lock is held throughout
				w.page.Leave(0)
				_ = hold.Unlock()
			}
		})
	}
	settle()
	r := &Report{}
	if n >= enoughToWeigh {
		r.More = weigh().since(before, n, "waiter")
	}
	if err := w.parent.Send(waiting, nil); err != nil {
		return err
	}
	if err := w.parent.Await(finish); err != nil {
		return err
	}
	cancel()
	wg.Wait()
	return w.finish(r)
}

// leadWaiters starts to count when all wait.
func leadWaiters(ctx context.Context, m *Measurement) error {
	if err := m.crew.Expect(ready); err != nil {
		return err
	}
	holder, waiters := m.crew.Members()[0], m.crew.Members()[1]
	if err := holder.Send(begin); err != nil {
		return err
	}
	if err := sendAndExpect(waiters, begin, waiting); err != nil {
		return err
	}
	stop, err := m.watch(ctx)
	if err != nil {
		return err
	}
	if err := library.Pause(ctx, m.window); err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	// The waiters finish first: none of them may get the lock.
	for _, member := range []int{1, 0} {
		var r Report
		if err := m.crew.Members()[member].Send(finish); err != nil {
			return err
		}
		if err := m.crew.Members()[member].Expect(done, &r); err != nil {
			return err
		}
		m.round.Reports = append(m.round.Reports, r)
	}
	return nil
}

// A weight is the memory of a process.
type weight struct {
	heap, stacks, goroutines int64
}

// weigh measures after a garbage collection.
func weigh() weight {
	runtime.GC()
	runtime.GC() // memory that finalizers or pools still held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return weight{int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}

// since returns the difference for each of n, by the names of the figures.
func (t weight) since(before weight, n int, each string) map[string]float64 {
	per := func(after, before int64) float64 { return float64(after-before) / float64(n) }
	return map[string]float64{
		"heap_per_" + each + "_bytes":  per(t.heap, before.heap),
		"stack_per_" + each + "_bytes": per(t.stacks, before.stacks),
		"goroutines_per_" + each:       per(t.goroutines, before.goroutines),
	}
}

// settle returns when the number of goroutines has stayed the same for a while: all have begun their work. With some libraries
// it never does, so the wait has a limit.
func settle() {
	const interval, calm, most = 50 * time.Millisecond, 6, 60
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last, same := 0, 0
	for range most {
		<-tick.C
		n := runtime.NumGoroutine()
		if n != last {
			last, same = n, 0
		} else if same++; same == calm {
			return
		}
	}
}
