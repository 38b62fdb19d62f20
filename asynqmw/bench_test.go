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
// Handlers that do nothing show what the lock costs beside asynq alone, and those that wait for 2 ms
// what is seen of it in practice; the handlers of 100 keys note in Redis when they start and end, and
// must not overlap.
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
		b.Run(load.name+"/without locks", func(b *testing.B) {
			var took time.Duration
			for range b.N {
				took += process(b, load.task, tasks, load.keys, true)
			}
			bare = took / time.Duration(b.N)
			b.ReportMetric(tasks/bare.Seconds(), "tasks/s")
		})
		b.Run(load.name+"/with locks", func(b *testing.B) {
			var took time.Duration
			for range b.N {
				took += process(b, load.task, tasks, load.keys, false)
			}
			took /= time.Duration(b.N)
			b.ReportMetric(tasks/took.Seconds(), "tasks/s")
			if bare > 0 {
				b.ReportMetric(took.Seconds()/bare.Seconds(), "x-without")
			}
		})
	}
}

// process returns how long the tasks took.
func process(b *testing.B, task string, tasks, keys int, unlocked bool) time.Duration {
	b.StopTimer()
	defer b.StartTimer()
	s := redistest.Redis(b)
	q, work := newQueue(b, queueOn(s)), journal{s.NewClient(b)}
	resume := q.pause()
	for i := range tasks {
		q.enqueue(taskFor(task, strconv.Itoa(i%keys)))
	}
	spec := workerSpec{Addr: s.Addr(), Concurrency: 4, Wait: time.Second, Unlocked: unlocked}
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
	if task == "order:fulfil" && !unlocked {
		if n := checkApart(b, work.read(b)); n != tasks {
			b.Errorf("%d ran, want %d", n, tasks)
		}
	}
	s.Kill()
	return took
}
