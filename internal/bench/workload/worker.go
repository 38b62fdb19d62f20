package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/library"
)

// A Job describes the work of one process of a measurement.
type Job struct {
	Workload, Library string
	Config            library.Config
	Processes         int
	Key               string // unique to the measurement; the keys begin with it
	Page              string // the file of the exclusion check
	Window            time.Duration
	Patience          time.Duration // a longer wait for a lock is a failure
	Background        bool          // contexts never end
	Profile           string        // the prefix of file names; "": no profiles
}

// A Worker is a process of a measurement at work.
type Worker struct {
	Job
	library library.Library
	page    *exclusion.Page
	parent  *crew.Parent
}

// Work returns the function of the processes of a crew: a job with one of libraries and one of workloads.
func Work(libraries []library.Library, workloads []Workload) func(Job, *crew.Parent) error {
	return func(job Job, parent *crew.Parent) error {
		w := &Worker{Job: job, parent: parent}
		var err error
		if w.library, err = find(libraries, job.Library, func(l library.Library) string { return l.Name }); err != nil {
			return err
		}
		load, err := find(workloads, job.Workload, func(w Workload) string { return w.Name })
		if err != nil {
			return err
		}
		if w.page, err = exclusion.Open(job.Page); err != nil {
			return err
		}
		return load.work(w)
	}
}

func find[T any](all []T, name string, nameOf func(T) string) (T, error) {
	for _, v := range all {
		if nameOf(v) == name {
			return v, nil
		}
	}
	var none T
	return none, fmt.Errorf("%q is not known", name)
}

// The messages between the processes of a measurement.
const (
	ready = "ready"
	begin = "begin"
	done  = "done"
	leave = "leave"
)

func (w *Worker) open() (library.Locker, error) { return w.library.Open(w.Config) }

// key returns the i-th key.
func (w *Worker) key(i int) string { return w.Key + ":" + strconv.Itoa(i) }

// keys returns the first n keys.
func (w *Worker) keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = w.key(i)
	}
	return keys
}

// context returns the context for taking locks. It can end, like the context of a request; its deadline passes only if
// something hangs.
func (w *Worker) context() (context.Context, context.CancelFunc) {
	if w.Background {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), w.Patience)
}

// start waits for the order to begin, with the heap as clean as possible.
func (w *Worker) start() error {
	runtime.GC()
	if err := w.parent.Send(ready, nil); err != nil {
		return err
	}
	return w.parent.Await(begin)
}

// finish sends the report, and returns when everything is counted. The remaining holds may then be released.
func (w *Worker) finish(r *Report) error {
	r.Violations = w.page.Violations()
	if err := w.parent.Send(done, r); err != nil {
		return err
	}
	return w.parent.Await(leave)
}

// measure runs f, with profiles if the job asks for them, and records in r what it allocated.
func (w *Worker) measure(r *Report, f func() error) error {
	stop, err := w.profile()
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	r.Allocs = int64(after.Mallocs - before.Mallocs)
	r.Bytes = int64(after.TotalAlloc - before.TotalAlloc)
	return errors.Join(err, stop())
}

// profile starts a CPU profile; stop writes it and those of allocations and of contended mutexes.
func (w *Worker) profile() (stop func() error, err error) {
	if w.Profile == "" {
		return func() error { return nil }, nil
	}
	runtime.SetMutexProfileFraction(100)
	name := fmt.Sprintf("%s.%d.", w.Profile, w.Config.Index)
	cpu, err := os.Create(name + "cpu.pprof") //nolint:gosec // in the directory that the command line names
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), writeProfile("allocs", name), writeProfile("mutex", name))
	}, nil
}

func writeProfile(kind, name string) error {
	f, err := os.Create(name + kind + ".pprof") //nolint:gosec // as the CPU profile
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
}
