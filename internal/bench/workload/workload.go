// Package workload has the workloads: one file for each kind of work. A workload describes what the processes do and, if they
// do not all do the same at the same time, how the benchmark leads them.
package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/stat"
)

// A Workload is one thing to be measured with each library.
type Workload struct {
	Name      string
	About     string // a short description for the help
	Processes int
	Keys      int // keys to lock
	Wait      library.Wait
	// Runs reports whether the workload makes sense with a library.
	Runs func(library.Library) bool
	// Group is the same for adjacent workloads that are compared with one another: they take turns. "": none.
	Group string
	// Cluster is what a Cluster does in the meantime.
	Cluster ClusterRole
	// Nodes is the number of independent servers of the locks; 0: they are on one server, or a Cluster.
	Nodes int
	// Dead is how many of these are unreachable.
	Dead int
	// Delay is the additional delay of the server's answers.
	Delay time.Duration
	// Procs limits the processors of each process; 0: as the run does.
	Procs int
	// Once is set where a repetition would show nothing new: the results are counts, not times.
	Once bool
	// Long is set where a measurement takes long regardless of its duration: a quick run leaves it out.
	Long bool
	// Minor is set where fewer rounds suffice.
	Minor bool
	// Window is how long a measurement takes; by default the run's duration.
	Window func(duration time.Duration) time.Duration
	// Extra is how long the rest of it may also take, before it counts as hung.
	Extra time.Duration
	// Half makes the server run only half of the time.
	Half bool

	work func(*Worker) error                       // calls finish in the end
	lead func(context.Context, *Measurement) error // nil: all work together
}

// A ClusterRole is what a Cluster of three masters does while a workload is measured.
type ClusterRole int

// The roles of a Cluster. An idle Cluster takes as much of the machine as the server does while the Cluster has the locks.
const (
	NoCluster ClusterRole = iota
	IdleCluster
	HasLocks
)

// A Report is the measurement of one process.
type Report struct {
	Latency stat.Latency  // the times of the workload
	Elapsed time.Duration // of the window of Counts
	Counts  []int64       // acquisitions of each goroutine within the window
	Pairs   int64         // acquisitions including those that ended after the window
	Allocs  int64         // while Pairs were made
	Bytes   int64         // allocated in that time
	// Violations counts simultaneous holds that exclude each other.
	Violations int64
	// Stranded counts waits that ended without the lock although it was free.
	Stranded int64
	// More has the figures of only this workload, by their displayed names.
	More map[string]float64
}

// All returns the workloads in the order in which they are measured.
func All() []Workload {
	list := []Workload{
		priced(solo("solo")), spread("spread64", 64), spread("spread512", 512),
		priced(hot("hot32", 1, 32)), priced(hot("hot4x8", 4, 8)), strict(hot("fair32", 1, 32)), strict(hot("fair4x8", 4, 8)),
		queue("queue10", 10), queue("queue100", 100), queue("queue1000", 1000), queue("queue5000", 5000),
		reading("rwread1", 1), reading("rwread32", 32), readMostly("rw4x8", 4, 8),
		semaphores("sem32x8", 4, 8, time.Millisecond), semaphores("sem32x8-20ms", 4, 8, 20*time.Millisecond),
		handoff, contended, idle("idle1000", 1000), held(heldLeast), held(heldMore), held(200_000), reentry, lockAll("all8"),
		crowd("waiters100k", 100_000),
		waited(waitedLeast), waited(10_000), waited(40_000), waited(80_000), waited(200_000), halved(waited(10_000)), halved(waited(200_000)),
		distant(solo("solo-rtt1ms")), distant(lockAll("all8-rtt1ms")), distant(spread("spread64-rtt1ms", 64)),
		confined(solo("solo-procs1"), 1), confined(solo("solo-procs2"), 2),
		confined(spread("spread64-procs1", 64), 1), confined(spread("spread64-procs2", 64), 2),
		confined(hot("hot32-procs1", 1, 32), 1), confined(hot("hot32-procs2", 1, 32), 2),
	}
	for _, w := range []Workload{hot("hot32", 1, 32), spread("spread64", 64), handoff} {
		list = append(list, clustered(w)...)
	}
	list = append(list, scaling()...)
	list = append(list, onces()...)
	list = append(list, withPage(spread("spread64", 64))...)
	for _, n := range []int{3, 5} {
		list = append(list, overNodes(n)...)
	}
	return list
}

// MostNodes is the greatest number of independent servers of a lock.
const MostNodes = 5

// overNodes are the workloads on n independent servers.
func overNodes(n int) []Workload {
	list := []Workload{solo("solo"), solo("solo"), hot("hot32", 1, 32), spread("spread64", 64)}
	for i := range list {
		w := &list[i]
		w.Name += fmt.Sprintf("-nodes%d", n)
		w.About += fmt.Sprintf(", over %d servers", n)
		w.Nodes, w.Runs = n, only("lockmw-redlock", "redsync")
	}
	alive, dead := &list[0], &list[1]
	alive.Group, dead.Group = alive.Name, alive.Name
	dead.Name, dead.Dead = dead.Name+"-dead", 1
	dead.About += ", one of which is dead"
	dead.Runs = only("lockmw-redlock") // with redsync each call takes as long as its client tries to connect: seconds
	alive.Runs = only("lockmw-redlock", "lockmw-redlock-notoken", "redsync")
	return list
}

// clustered is a workload on a Cluster, and on one server next to the same Cluster. They take turns.
func clustered(w Workload) []Workload {
	w.Runs, w.Group = only("lockmw"), w.Name+"-cluster"
	alone := w
	alone.Name, alone.Cluster = w.Name+"-alone", IdleCluster
	alone.About += ", next to an idle Cluster"
	return []Workload{alone, onCluster(w)}
}

// onCluster puts the locks of a workload on a Cluster.
func onCluster(w Workload) Workload {
	w.Name, w.Cluster = w.Name+"-cluster", HasLocks
	w.About += ", on a Cluster of three masters"
	return w
}

// distant puts the server a millisecond away.
func distant(w Workload) Workload {
	w.About += ", the server 1 ms away"
	w.Delay, w.Minor = time.Millisecond, true
	return w
}

// halved makes the server run half of the time.
func halved(w Workload) Workload {
	w.Name, w.Half, w.Long = w.Name+"-half", true, true
	w.About += ", the server runs half of the time"
	return w
}

// confined limits the processors of a workload. It runs with lockmw and with the simplest lock.
func confined(w Workload, procs int) Workload {
	w.About += ", GOMAXPROCS set"
	w.Procs, w.Minor = procs, true
	w.Runs = only("lockmw", "raw")
	return w
}

// priced adds the other kinds of lockmw's lock to a workload.
func priced(w Workload) Workload {
	others := w.Runs
	w.Runs = func(l library.Library) bool { return l.Variant && !l.Several || others(l) }
	return w
}

// strict measures the fair lock of a workload, and the closest lock of another library.
func strict(w Workload) Workload {
	w.About += ", in strict order"
	w.Runs = only("lockmw-fair", "rueidislock")
	return w
}

func only(names ...string) func(library.Library) bool {
	return func(l library.Library) bool { return slices.Contains(names, l.Name) }
}

func locks(l library.Library) bool { return l.Locks() && !l.Variant }

// contends is for workloads in which many wait: a pipeline does not help calls that try again later.
func contends(l library.Library) bool { return locks(l) && !l.Pipelines }
