package asynqmw_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/internal/redistest"
)

// BenchmarkTasks processes 10,000 tasks by 8 workers in 2 processes:
//
//	go test -run '^$' -bench Tasks -benchtime 1x ./asynqmw
//
// Handlers that do nothing show what a lock costs beside asynq alone, which makes two round trips for a
// task as any lock does; those that wait for 2 ms what is seen of it in practice. The handlers of 100
// keys note in Redis when they start and end, and must not overlap.
func BenchmarkTasks(b *testing.B) {
	const tasks = 10_000
	for _, load := range []struct {
		name, task string
		keys       int
	}{
		{"distinct keys, no work", "order:nothing", tasks},
		{"distinct keys, 2 ms of work", "order:query", tasks},
		{"100 keys", "order:fulfil", 100},
	} {
		var bare time.Duration // of a run
		for _, lock := range []string{"none", "SET NX", "lockmw"} {
			b.Run(load.name+"/"+lock, func(b *testing.B) {
				if lock == "SET NX" && load.keys < tasks {
					b.Skip("it does not wait for another's end")
				}
				var took time.Duration
				for range b.N {
					took += process(b, load.task, tasks, load.keys, lock)
				}
				took /= time.Duration(b.N)
				b.ReportMetric(tasks/took.Seconds(), "tasks/s")
				if lock == "none" {
					bare = took
				} else if bare > 0 {
					b.ReportMetric(took.Seconds()/bare.Seconds(), "x-none")
				}
			})
		}
	}
}

// process returns how long the tasks took.
func process(b *testing.B, task string, tasks, keys int, lock string) time.Duration {
	b.StopTimer()
	defer b.StartTimer()
	s := redistest.Redis(b)
	q, work := newQueue(b, queueOn(s)), journal{s.NewClient(b)}
	resume := q.pause()
	for i := range tasks {
		q.enqueue(taskFor(task, strconv.Itoa(i%keys)))
	}
	spec := workerSpec{Addr: s.Addr(), Concurrency: 4, Wait: time.Second, Lock: lock}
	workers := []*worker{startWorker(b, spec), startWorker(b, spec)}
	resume(len(workers))
	b.StartTimer()
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
	b.StopTimer()
	for _, w := range workers {
		w.end(b)
	}
	if task == "order:fulfil" && lock != "none" {
		if n := checkApart(b, work.read(b)); n != tasks {
			b.Errorf("%d ran, want %d", n, tasks)
		}
	}
	s.Kill()
	return took
}
