package workload

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/lockmw"
)

// listing: one process holds n keys, among other keys of the server, and lists all locks as `lockmw ls` does, but at full speed.
func listing(n, others int) Workload {
	name, about := SizeName("list", n), fmt.Sprintf("an Inspector lists %d locks", n)
	if others > 0 {
		name, about = SizeName(name+"-among", others), fmt.Sprintf("%s among %d other keys", about, others)
	}
	return Workload{
		Name: name, About: about,
		Processes: 1, Keys: n, Wait: library.Long, Once: true, Long: n > listMost || others > othersMost, Runs: only("lockmw"),
		Extra: 2 * waitedLimit,
		work: func(w *Worker) error {
			l, _, err := w.holdKeys(n)
			if err != nil {
				return err
			}
			defer l.Close()
			return w.list(others, func(i *lockmw.Inspector) (int, error) {
				return w.countLocks(i.All(context.Background(), lockmw.WithShare(1)))
			}, n)
		},
	}
}

// listMost and othersMost are the greatest numbers of locks and of other keys of a quick run.
const (
	listMost   = 10_000
	othersMost = 100_000
)

// top: one process holds a few keys, among other keys, and another waits for them. The first one looks for the keys that are waited
// for, as the first thing that `lockmw top` shows.
func top(others int) Workload {
	return Workload{
		Name: SizeName("top", others), About: fmt.Sprintf("an Inspector finds %d contended locks among %d other keys", topKeys, others),
		Processes: 2, Keys: topKeys, Wait: library.Long, Once: true, Long: others > othersMost, Runs: only("lockmw"),
		Extra: 2 * waitedLimit,
		work: func(w *Worker) error {
			if w.Config.Index == 1 {
				return w.waitMeanwhile(topKeys)
			}
			l, _, err := w.holdKeys(topKeys)
			if err != nil {
				return err
			}
			defer l.Close()
			return w.list(others, func(i *lockmw.Inspector) (int, error) {
				return w.countLocks(i.Queued(context.Background(), nil, lockmw.WithShare(topShare)))
			}, topKeys)
		},
		lead: leadTop,
	}
}

const (
	topKeys  = 50
	topShare = 0.5 // as in lockmw top
)

// The figures of lists.
const (
	Listed     = "listed"     // locks
	Passes     = "passes"     // SCANs that began at the first key
	ListMillis = "list_ms"    // from the first command until all locks were listed
	KeyMicros  = "us_per_key" // the same, for each key of the server
)

// list stores other keys, lists by order, and reports how it did. Its pairs are the locks, of which there must be n.
func (w *Worker) list(others int, list func(*lockmw.Inspector) (int, error), n int) error {
	rdb := redis.NewClient(&redis.Options{Addr: w.Config.Addr})
	defer rdb.Close()
	if err := fill(rdb, w.Key, others); err != nil {
		return err
	}
	passes := &counter{match: beginsScan}
	rdb.AddHook(passes)
	inspector, err := lockmw.NewInspector(rdb)
	if err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	begun := time.Now()
	got, err := list(inspector)
	took := time.Since(begun)
	if err != nil {
		return err
	}
	if got != n {
		return fmt.Errorf("%d locks are listed instead of %d", got, n)
	}
	r := &Report{Pairs: int64(n), Elapsed: took, Counts: []int64{int64(n)}, More: map[string]float64{
		Listed: float64(n), Passes: float64(passes.commands.Load()), ListMillis: millis(took),
		KeyMicros: 1000 * millis(took) / float64(n+others),
	}}
	return w.finish(r)
}

// beginsScan reports whether a command is the first SCAN of a pass.
func beginsScan(cmd redis.Cmder) bool {
	return cmd.Name() == "scan" && fmt.Sprint(cmd.Args()[1]) == "0"
}

// countLocks counts the locks of this measurement, each of which must be readable.
func (w *Worker) countLocks(all iter.Seq2[lockmw.Status, error]) (n int, err error) {
	for s, err := range all {
		if err != nil {
			return n, err
		}
		if strings.HasPrefix(s.Key, w.Key) {
			n++
		}
	}
	return n, nil
}

// waitMeanwhile waits for n keys until the order to finish.
func (w *Worker) waitMeanwhile(n int) error {
	l, err := library.OpenLockmw(w.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := w.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t := newTakers(l, w.page, w.keys(n))
	if err := t.queue(ctx); err != nil {
		return err
	}
	if err := w.parent.Send(waiting, nil); err != nil {
		return err
	}
	return w.finish(&Report{})
}

// leadTop counts the server's work while the first process looks for keys that the second one waits for.
func leadTop(ctx context.Context, m *Measurement) error {
	if err := m.crew.Expect(ready); err != nil {
		return err
	}
	looks, waits := m.crew.Members()[0], m.crew.Members()[1]
	if err := sendAndExpect(waits, begin, waiting); err != nil {
		return err
	}
	return m.during(ctx, func() error {
		if err := looks.Send(begin); err != nil {
			return err
		}
		return m.collect()
	})
}
