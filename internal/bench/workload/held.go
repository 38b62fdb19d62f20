package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/lockmw"
)

const (
	// heldLease is the lease of lockmw's holds, so that the watchdog is soon at work. It renews each hold
	// once in a tick.
	heldLease = 6 * time.Second
	heldTick  = heldLease / 3
)

// held: one process holds n keys while the watchdog renews them. Only for libraries that have one.
func held(name string, n int) Workload {
	return Workload{
		Name: name, About: fmt.Sprintf("one process holds %d keys under the watchdog", n),
		Processes: 1, Keys: n, Wait: library.Long, Once: true,
		Runs: func(l library.Library) bool { return locks(l) && l.Watchdog },
		Window: func(d time.Duration) time.Duration {
			return min(max(4*d, heldTick), 4*heldTick).Truncate(heldTick) + heldTick/4
		},
		work: func(w *Worker) error { return w.hold(n) },
	}
}

func (w *Worker) hold(n int) error {
	locker, renewals, err := w.openHeld()
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := w.context()
	defer cancel()
	h := &holder{w: w, locker: locker, keys: make([]string, n), holds: make([]library.Hold, n)}
	for i := range n {
		h.keys[i] = w.key(i)
	}
	if err := h.warmUp(ctx); err != nil {
		return err
	}
	before := weigh()
	if err := h.each(func(i int) error { return h.lock(ctx, i) }); err != nil {
		return err
	}
	r := &Report{More: weigh().since(before, n, "hold")}
	renewals.reset()
	if err := w.start(); err != nil {
		return err
	}
	if err := library.Pause(ctx, w.Window); err != nil {
		return err
	}
	if err := renewals.report(r.More, n); err != nil {
		return err
	}
	if err := w.finish(r); err != nil {
		return err
	}
	return h.each(h.unlock)
}

// openHeld opens a locker whose renewals can be counted, if it is lockmw's.
func (w *Worker) openHeld() (library.Locker, *pipelines, error) {
	if w.Library != "lockmw" {
		locker, err := w.open()
		return locker, nil, err
	}
	l, err := library.OpenLockmw(w.Config, lockmw.WithLease(heldLease))
	if err != nil {
		return nil, nil, err
	}
	p := &pipelines{of: "evalsha"}
	l.RDB.AddHook(p)
	return l, p, w.extendOnce(l)
}

// extendOnce makes the server know the script of renewals, as it does in all ticks but the first.
func (w *Worker) extendOnce(l *library.Lockmw) error {
	_, hold, err := l.Client.Lock(context.Background(), w.key(0))
	if err != nil {
		return err
	}
	return errors.Join(hold.Extend(context.Background(), heldLease), hold.Unlock())
}

// A holder takes, keeps and releases many locks, some at a time.
type holder struct {
	w      *Worker
	locker library.Locker
	keys   []string
	holds  []library.Hold
}

const heldAtOnce = 64

// warmUp makes what the library keeps whatever the number of holds.
func (h *holder) warmUp(ctx context.Context) error {
	const few = heldAtOnce * 4
	all := *h
	h.keys, h.holds = all.keys[:few], all.holds[:few]
	defer func() { *h = all }()
	if err := h.each(func(i int) error { return h.lock(ctx, i) }); err != nil {
		return err
	}
	return h.each(h.unlock)
}

// each calls f with the index of every key.
func (h *holder) each(f func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make(chan error, heldAtOnce)
	for range heldAtOnce {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(h.keys); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs // nil if there is none
}

func (h *holder) lock(ctx context.Context, i int) error {
	hold, err := h.locker.Lock(ctx, h.keys[i])
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	h.w.page.Enter(i)
	h.holds[i] = hold
	return nil
}

func (h *holder) unlock(i int) error {
	h.w.page.Leave(i)
	if err := h.holds[i].Unlock(); err != nil {
		return fmt.Errorf("unlocking: %w", err)
	}
	h.holds[i] = nil
	return nil
}

// pipelines is a hook of go-redis that counts commands of one name, and how often some go out together. A nil one counts
// nothing.
type pipelines struct {
	of              string // lower case
	trips, commands atomic.Int64
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.count(cmd)
		return next(ctx, cmd)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.count(cmds...)
		return next(ctx, cmds)
	}
}

func (p *pipelines) count(cmds ...redis.Cmder) {
	n := int64(0)
	for _, cmd := range cmds {
		if cmd.Name() == p.of {
			n++
		}
	}
	if n > 0 {
		p.trips.Add(1)
		p.commands.Add(n)
	}
}

func (p *pipelines) reset() {
	if p != nil {
		p.trips.Store(0)
		p.commands.Store(0)
	}
}

// report adds how many pipelines the renewal of all n holds takes.
func (p *pipelines) report(more map[string]float64, n int) error {
	if p == nil {
		return nil
	}
	trips, commands := p.trips.Load(), p.commands.Load()
	if commands < int64(n) {
		return fmt.Errorf("%d holds were renewed %d times within a tick: the watchdog was not seen", n, commands)
	}
	more["pipelines_per_tick"] = float64(trips) * float64(n) / float64(commands)
	return nil
}
