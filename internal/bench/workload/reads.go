package workload

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// reading: n goroutines of one process lock the same key for reading. The pair is timed.
func reading(name string, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("%d goroutine(s) of a process read one key", n),
		Processes: 1, Keys: 1, Wait: library.Short, Runs: only("lockmw-rw"),
		work: func(w *Worker) error {
			return w.pairs(load{goroutines: n, keyOf: oneKey, reads: 1})
		},
	}
}

// readMostly: goroutines of some processes lock the same key, rarely for writing, and keep it for a while. With the plain lock
// all of them exclude one another. The wait is timed.
func readMostly(name string, processes, n int) Workload {
	const reads, held = 0.95, time.Millisecond
	return Workload{
		Name: name, About: fmt.Sprintf("%d processes of %d goroutines hold one key for 1 ms, 95 %% of them to read", processes, n),
		Processes: processes, Keys: 1, Wait: library.Short, Runs: only("lockmw-rw", "lockmw"),
		work: func(w *Worker) error {
			return w.pairs(load{goroutines: n, keyOf: oneKey, waits: true, reads: reads, held: held})
		},
	}
}
