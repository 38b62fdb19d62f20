package workload

import (
	"time"

	"github.com/lockmw/go/internal/bench/library"
)

// reentry: nested locks and unlocks of a key that the context already holds. The pair is timed, as the mean of batches: reading
// the clock takes a good part of the time. Only lockmw re-enters. With redislock the same token takes a lock again, which costs
// a command and is left out.
var reentry = Workload{
	Name: "reentry", About: "nested lock and unlock of a held key",
	Processes: 1, Keys: 1, Wait: library.Short,
	Runs: func(l library.Library) bool { return l.Name == "lockmw" },
	work: (*Worker).reenter,
}

const reentries = 1000 // in a batch

func (w *Worker) reenter() error {
	l, err := library.OpenLockmw(w.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := w.context()
	defer cancel()
	ctx, hold, err := l.Client.Lock(ctx, w.key(0))
	if err != nil {
		return err
	}
	defer hold.Unlock()
	nested := func() error {
		for range reentries {
			_, again, err := l.Client.Lock(ctx, w.key(0))
			if err != nil {
				return err
			}
			if err := again.Unlock(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := nested(); err != nil {
		return err
	}
	time.Sleep(settles)
	settle() // on a busy machine the library may still examine the server
	if err := w.start(); err != nil {
		return err
	}
	r := &Report{Elapsed: w.Window}
	if err := w.measure(r, func() error { return w.batches(r, nested) }); err != nil {
		return err
	}
	return w.finish(r)
}

// batches runs batch for the window.
func (w *Worker) batches(r *Report, batch func() error) error {
	end := time.Now().Add(w.Window)
	for now := time.Now(); now.Before(end); {
		start := now
		if err := batch(); err != nil {
			return err
		}
		now = time.Now()
		r.Latency.Record(now.Sub(start) / reentries)
		r.Pairs += reentries
	}
	r.Counts = []int64{r.Pairs}
	return nil
}
