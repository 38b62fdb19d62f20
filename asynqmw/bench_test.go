package asynqmw_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

// BenchmarkTasks processes 10,000 tasks by 8 workers in 2 processes, in turn without a lock, with as
// little of a lock as can be, and with lockmw, and reports the medians of the rounds:
//
//	go test -run '^$' -bench Tasks -benchtime 8x ./asynqmw
//
// Handlers that do nothing show what a lock costs beside asynq alone, which makes two round trips for a
// task as any lock does; those that wait for 2 ms what is seen of it in practice. The handlers of 100
// keys note in Redis when they start and end, and must not overlap.
func BenchmarkTasks(b *testing.B) {
	const tasks = 10_000
	for _, load := range []struct {
		name, task string
		keys       int
		locks      []string
	}{
		{"distinct keys, no work", "order:nothing", tasks, []string{"none", "SET NX", "lockmw"}},
		{"distinct keys, 2 ms of work", "order:query", tasks, []string{"none", "SET NX", "lockmw"}},
		{"100 keys", "order:fulfil", 100, []string{"none", "lockmw"}}, // SET NX does not wait
	} {
		b.Run(load.name, func(b *testing.B) {
			seconds, ratios := make(map[string][]float64), make(map[string][]float64)
			for range b.N {
				for _, lock := range load.locks {
					took := process(b, load.task, tasks, load.keys, lock).Seconds()
					seconds[lock] = append(seconds[lock], took)
					ratios[lock] = append(ratios[lock], took/seconds["none"][len(seconds["none"])-1])
				}
			}
			for _, lock := range load.locks {
				unit := strings.ReplaceAll(lock, " ", "-")
				b.ReportMetric(tasks/median(seconds[lock]), unit+"-tasks/s")
				if lock != "none" {
					b.ReportMetric(median(ratios[lock]), unit+"/none")
				}
			}
			b.ReportMetric(0, "ns/op") // of all of them together: it says nothing
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// process returns how long the tasks took.
func process(b *testing.B, task string, tasks, keys int, lock string) time.Duration {
	s := redistest.Redis(b)
	q, work := newQueue(b, queueOn(s)), journal{s.NewClient(b)}
	resume := q.pause()
	for i := range tasks {
		q.enqueue(taskFor(task, strconv.Itoa(i%keys)))
	}
	spec := workerSpec{Addr: s.Addr(), Concurrency: 4, Wait: time.Second, Lock: lock}
	workers := []*redistest.Child{startWorker(b, spec), startWorker(b, spec)}
	resume(len(workers))
	start := time.Now()
	late := start.Add(time.Minute)
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		info, err := q.inspector.GetQueueInfo("default")
		if err != nil {
			b.Fatal(err)
		}
		if info.Size == 0 {
			break
		}
		if time.Now().After(late) {
			b.Fatalf("after a minute the queue has %+v", info)
		}
	}
	took := time.Since(start)
	for _, w := range workers {
		w.End()
	}
	if task == "order:fulfil" && lock != "none" {
		if n := checkApart(b, work.read(b)); n != tasks {
			b.Errorf("%d ran, want %d", n, tasks)
		}
	}
	s.Kill()
	return took
}
