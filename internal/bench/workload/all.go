package workload

import (
	"errors"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/stat"
	"github.com/lockmw/go/lockmw"
)

// lockAll: one goroutine takes 8 free keys with LockAll and unlocks them, in turn with one key. The time is that of the pair of
// the 8; additional figures compare both halves of it with those of one key. Only lockmw takes several keys together.
func lockAll(name string) Workload {
	return Workload{
		Name: name, About: "1 goroutine takes 8 free keys with LockAll, in turn with one key",
		Processes: 1, Keys: allKeys, Wait: library.Short, Runs: only("lockmw"),
		work: (*Worker).lockAll,
	}
}

const allKeys = 8

// halves are the times of locking and of unlocking.
type halves struct{ lock, unlock stat.Latency }

func (w *Worker) lockAll() error {
	l, err := library.OpenLockmw(w.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	keys := make([]string, allKeys)
	for i := range keys {
		keys[i] = w.key(i)
	}
	var all, one halves
	r := &Report{Elapsed: w.Window}
	loop := func(d time.Duration) error {
		all, one, *r = halves{}, halves{}, Report{Elapsed: w.Window}
		for end := time.Now().Add(d); time.Now().Before(end); {
			took, err := w.lockOnce(l, keys, &all)
			if err != nil {
				return err
			}
			r.Latency.Record(took)
			if _, err := w.lockOnce(l, keys[:1], &one); err != nil {
				return err
			}
			r.Pairs += 2
		}
		return nil
	}
	for range 2 { // connections and scripts, and then the scripts for the kind of server, which the library finds out meanwhile
		if err := loop(50 * time.Millisecond); err != nil {
			return err
		}
		settle()
	}
	if err := w.start(); err != nil {
		return err
	}
	if err := w.measure(r, func() error { return loop(w.Window) }); err != nil {
		return err
	}
	if r.Pairs == 0 {
		return errors.New("not a single lock was acquired")
	}
	r.Counts = []int64{r.Pairs}
	r.More = map[string]float64{
		"lock_vs_one":   ratioOf(&all.lock, &one.lock),
		"unlock_vs_one": ratioOf(&all.unlock, &one.unlock),
	}
	return w.finish(r)
}

// ratioOf compares medians.
func ratioOf(a, b *stat.Latency) float64 {
	return float64(a.Percentile(50)) / float64(b.Percentile(50))
}

// lockOnce takes the locks of keys and releases them.
func (w *Worker) lockOnce(l *library.Lockmw, keys []string, h *halves) (time.Duration, error) {
	ctx, cancel := w.context()
	defer cancel()
	start := time.Now()
	var holds lockmw.Holds
	var err error
	if len(keys) == 1 {
		holds = make(lockmw.Holds, 1)
		_, holds[0], err = l.Client.Lock(ctx, keys[0])
	} else {
		_, holds, err = lockmw.LockAll(ctx, l.Client, keys)
	}
	if err != nil {
		return 0, err
	}
	locked := time.Now()
	for i := range keys {
		w.page.Enter(i)
	}
	for i := range keys {
		w.page.Leave(i)
	}
	used := time.Now()
	if len(keys) == 1 {
		err = holds[0].Unlock()
	} else {
		err = holds.Unlock()
	}
	end := time.Now()
	h.lock.Record(locked.Sub(start))
	h.unlock.Record(end.Sub(used))
	return end.Sub(start), err
}
