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
	"github.com/lockmw/go/internal/bench/stat"
	"github.com/lockmw/go/lockmw"
)

// leaseOf returns the lease of lockmw's holds: short enough for the watchdog to work soon, and long enough that the renewals of
// n holds do not occupy a whole server. 200,000 holds have the default lease.
func leaseOf(n int) time.Duration {
	return max(6*time.Second, time.Duration(n)*150*time.Microsecond)
}

// held: one process holds n keys while the watchdog renews them. Only for libraries with a watchdog.
func held(n int) Workload {
	tick := leaseOf(n) / 3
	return Workload{
		Name: SizeName("held", n), About: fmt.Sprintf("one process holds %d keys under the watchdog", n),
		Processes: 1, Keys: n, Wait: library.Long, Once: true, Long: n > heldMore,
		Runs: func(l library.Library) bool { return locks(l) && l.Watchdog && (n == heldLeast || l.Ours) },
		Window: func(d time.Duration) time.Duration {
			return min(max(4*d, tick), 4*tick).Truncate(tick) + tick/4
		},
		work: func(w *Worker) error { return w.hold(n) },
		lead: leadHolds,
	}
}

// heldLeast is the number of holds with which other libraries are compared. heldMore is the greatest number of a quick run.
const (
	heldLeast = 10_000
	heldMore  = 50_000
)

func (w *Worker) hold(n int) error {
	locker, renewals, err := w.openHeld(leaseOf(n))
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := w.context()
	defer cancel()
	h := &holder{w: w, locker: locker, keys: w.keys(n), holds: make([]library.Hold, n)}
	if err := h.warmUp(ctx); err != nil {
		return err
	}
	before := weigh()
	if err := h.each(func(i int) error { return h.lock(ctx, i) }); err != nil {
		return err
	}
	r := &Report{More: weigh().since(before, n, "hold")}
	if err := w.start(); err != nil {
		return err
	}
	renewals.reset() // earlier ones are not in the statistics of the server
	if err := library.Pause(ctx, w.Window); err != nil {
		return err
	}
	if err := renewals.await(ctx, n, leaseOf(n)-w.Window); err != nil {
		return err
	}
	if err := w.parent.Send(renewed, nil); err != nil {
		return err
	}
	if err := w.parent.Await(finish); err != nil {
		return err
	}
	if l, ok := locker.(*library.Lockmw); ok {
		return w.closeAll(l, h, r)
	}
	if err := w.finish(r); err != nil {
		return err
	}
	return h.each(h.unlock)
}

// closeAll closes the Client while all locks are held.
func (w *Worker) closeAll(l *library.Lockmw, h *holder, r *Report) error {
	for i := range h.keys {
		w.page.Leave(i)
	}
	if err := memoryOf(l, h.keys, r.More); err != nil {
		return err
	}
	begun := time.Now()
	if err := l.Client.Close(); err != nil {
		return err
	}
	r.More[CloseMillis] = float64(time.Since(begun).Milliseconds())
	return w.finish(r)
}

// The figures of many holds.
const (
	PingP99     = "ping_p99_us"
	PingMax     = "ping_max_us"
	CloseMillis = "close_ms"
	HeapPerHold = "heap_per_hold_bytes"
	RedisMemory = "redis_per_hold_bytes"
)

// memoryOf adds the server's memory for a hold, as the average of some.
func memoryOf(l *library.Lockmw, keys []string, more map[string]float64) error {
	some := keys[:min(100, len(keys))]
	var sum int64
	for _, key := range some {
		n, err := l.RDB.MemoryUsage(context.Background(), "lockmw:{"+key+"}").Result()
		if err != nil {
			return fmt.Errorf("the memory of %s: %w", key, err)
		}
		sum += n
	}
	more[RedisMemory] = float64(sum) / float64(len(some))
	return nil
}

// renewed is the message that all holds were renewed.
const renewed = "renewed"

// leadHolds measures the latency of another client while holds are renewed.
func leadHolds(ctx context.Context, m *Measurement) error {
	member := m.crew.Members()[0]
	if err := member.Expect(ready, nil); err != nil {
		return err
	}
	stop, err := m.watch(ctx)
	if err != nil {
		return err
	}
	pings := m.server.Ping(ctx, pingPause)
	err = sendAndExpect(member, begin, renewed)
	latency, pingErr := pings.Stop()
	if err := errors.Join(err, pingErr, stop()); err != nil {
		return err
	}
	if err := member.Send(finish); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	notePings(latency, m.round.Reports[0].More)
	return nil
}

// notePings adds the figures of PINGs.
func notePings(latency *stat.Latency, more map[string]float64) {
	more[PingP99] = float64(latency.Percentile(99).Nanoseconds()) / 1000
	more[PingMax] = float64(latency.Max().Nanoseconds()) / 1000
}

// pingPause is the time between two commands of the other client.
const pingPause = time.Millisecond

// openHeld opens a locker whose renewals can be counted, if it is lockmw's.
func (w *Worker) openHeld(lease time.Duration) (library.Locker, *counter, error) {
	if w.Library != "lockmw" {
		locker, err := w.open()
		return locker, nil, err
	}
	l, err := library.OpenLockmw(w.Config, lockmw.WithLease(lease))
	if err != nil {
		return nil, nil, err
	}
	p := &counter{match: named("evalsha")}
	l.RDB.AddHook(p)
	return l, p, w.extendOnce(l, lease)
}

// extendOnce loads the script of renewals, which is missing only in the first tick.
func (w *Worker) extendOnce(l *library.Lockmw, lease time.Duration) error {
	_, hold, err := l.Client.Lock(context.Background(), w.key(0))
	if err != nil {
		return err
	}
	return errors.Join(hold.Extend(context.Background(), lease), hold.Unlock())
}

// A holder takes, keeps and releases many locks, some at a time.
type holder struct {
	w      *Worker
	locker library.Locker
	keys   []string
	holds  []library.Hold
}

const heldAtOnce = 64

// warmUp allocates what the library keeps regardless of the number of holds.
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

// A counter is a hook of go-redis that counts single commands and commands in pipelines, when they are answered. A nil counter counts
// nothing.
type counter struct {
	match    func(redis.Cmder) bool // which are counted; nil: all
	commands atomic.Int64
}

// named matches commands by their name in lower case.
func named(name string) func(redis.Cmder) bool {
	return func(cmd redis.Cmder) bool { return cmd.Name() == name }
}

func (p *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer p.count(cmd)
		return next(ctx, cmd)
	}
}

func (p *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer p.count(cmds...)
		return next(ctx, cmds)
	}
}

func (p *counter) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if p.match == nil || p.match(cmd) {
			p.commands.Add(1)
		}
	}
}

func (p *counter) reset() {
	if p != nil {
		p.commands.Store(0)
	}
}

// await waits until all n holds were renewed: on a busy machine, some renewals are late.
func (p *counter) await(ctx context.Context, n int, most time.Duration) error {
	if p == nil {
		return nil
	}
	end := time.Now().Add(most)
	for p.commands.Load() < int64(n) {
		if time.Now().After(end) {
			return fmt.Errorf("%d holds were renewed %d times within a lease: the watchdog did not renew all", n, p.commands.Load())
		}
		if err := library.Pause(ctx, pingPause); err != nil {
			return err
		}
	}
	return nil
}
