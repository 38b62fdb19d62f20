package locktest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/lockmw"
)

var fullMemory = []scenario{
	{"refuses new locks with a clear error", fullRefuses, realTime | alone | sample},
	{"lets holds be released", fullReleases, realTime | alone | sample},
	{"lets locks be handed over", fullHandsOver, realTime | alone | sample},
	{"lets holds be renewed and waiters wait", fullRenews, realTime | alone},
	{"lets the lock of an expired hold be granted", fullExpires, realTime | alone},
	{"lets waits be cancelled", fullCancels, realTime | alone | sample},
	{"lets Close release", fullCloses, realTime | alone | sample},
	{"that evicts locks is warned of once", warnsOfEviction, realTime | alone | sample},
}

// fill makes the server one that has no memory left.
func (e *env) fill() {
	e.t.Helper()
	if err := e.admin.ConfigSet(e.ctx, "maxmemory-policy", "noeviction").Err(); err != nil {
		e.t.Fatal(err)
	}
	e.setMaxMemory("1")
	e.t.Cleanup(func() { e.admin.ConfigSet(context.Background(), "maxmemory", "0") })
	if err := e.admin.Set(e.ctx, e.prefix+":more", "", 0).Err(); err == nil {
		e.t.Fatal("the server takes more data")
	}
}

func (e *env) setMaxMemory(limit string) {
	e.t.Helper()
	if err := e.admin.ConfigSet(e.ctx, "maxmemory", limit).Err(); err != nil {
		e.t.Fatal(err)
	}
}

func fullRefuses(e *env) {
	c, key := e.client(), e.key("user")
	taken := e.key("user")
	ctx, held := e.lock(e.client(), taken)
	e.fill()
	for _, k := range []string{key, taken} { // taken: nobody can queue either
		for _, wait := range []time.Duration{0, lockmw.Forever} {
			if k == taken && wait == 0 {
				continue // trying needs no memory: it is busy
			}
			l := lockmw.Locker(c)
			if k == taken {
				l = c.rival
			}
			start := time.Now()
			_, _, err := l.Lock(e.ctx, k, lockmw.WithWait(wait))
			e.is("Lock with a full memory", err, lockmw.ErrUnavailable)
			if err != nil && !strings.Contains(err.Error(), "OOM") {
				e.t.Errorf("the error does not say what the server said: %v", err)
			}
			if errors.Is(err, lockmw.ErrBusy) {
				e.t.Errorf("a full memory is told as a lost race: %v", err)
			}
			if took := e.pace.since(start); took > e.soon {
				e.t.Errorf("the call took %v", took)
			}
		}
	}
	e.busy(c, taken)
	e.unlock(ctx, held)
	e.setMaxMemory("0")
	e.free(c, key)
	e.free(c, taken)
}

func fullReleases(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	_, nested, err := c.Lock(ctx, key)
	if err != nil {
		e.t.Fatal(err)
	}
	e.fill()
	if err := nested.Unlock(); err != nil {
		e.t.Errorf("Unlock of a nested hold: %v", err)
	}
	e.unlock(ctx, held)
	if e.admin.Exists(e.ctx, e.redisKey(key)).Val() != 0 {
		e.t.Error("the lock is still there")
	}
}

func fullHandsOver(e *env) {
	a, b, c, key := e.client(), e.client(), e.client(), e.key("user")
	ctx, held := e.lock(a, key)
	waiters := []*waiter{e.wait(b, key), e.wait(b, key), e.wait(c, key)}
	e.ticketsQueued(key, e.ticketsOf(2, 3))
	e.fill()
	e.unlock(ctx, held)
	for left := waiters; len(left) > 0; {
		w := e.first(e.soon, left)
		e.unlock(w.gets(0))
		left = without(left, w)
	}
}

// ticketsOf is how many tickets so many calls have that wait in so many processes.
func (e *env) ticketsOf(processes, calls int64) int64 {
	if e.cfg.Mode == clientMode {
		return processes
	}
	return calls
}

// ticketsQueued waits until n tickets are in key's queue.
func (e *env) ticketsQueued(key string, n int64) {
	e.t.Helper()
	e.eventually(patience, func() string {
		if e.admin.ZCard(e.ctx, e.redisKey(key)+":queue").Val() == n {
			return ""
		}
		return "not all who wait are queued"
	})
}

func fullRenews(e *env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("user")
	ctx, held := e.lock(a, key, lockmw.WithLease(lease))
	w := e.wait(b, key)
	e.ticketsQueued(key, 1)
	e.fill()
	a.wire.Record()
	b.wire.Record()
	time.Sleep(5 * pollInterval) // the work: longer than the lease, and than a dead waiter stays
	// A refused poll would go unnoticed, as the others' then are too and nobody is taken for dead.
	e.again(a.wire.Sent(), key, func() {})
	e.again(b.wire.Sent(), key, func() {})
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	w.isWaiting()
	e.ticketsQueued(key, 1)
	e.unlock(ctx, held)
	e.unlock(w.gets(e.soon))
}

func fullExpires(e *env) {
	const lease = 600 * time.Millisecond
	a, b, key := e.client(), e.client(), e.key("user")
	ctx, held := e.lock(a, key, lockmw.WithFixedLease(lease/2))
	w := e.wait(b, key)
	e.ticketsQueued(key, 1)
	e.fill()
	if err := held.Extend(ctx, lease); err != nil {
		e.t.Errorf("Extend: %v", err)
	}
	e.unlock(w.gets(lease + pollInterval + e.soon))
	e.lost(ctx, held)
}

func fullCancels(e *env) {
	a, b, key := e.client(), e.client(), e.key("user")
	ctx, held := e.lock(a, key)
	w := e.wait(b, key)
	e.ticketsQueued(key, 1)
	e.fill()
	w.cancel()
	w.fails(e.soon, lockmw.ErrBusy, context.Canceled)
	e.ticketsQueued(key, 0)
	e.unlock(ctx, held)
}

func fullCloses(e *env) {
	a, key := e.client(), e.key("user")
	_, held := e.lock(a, key)
	e.fill()
	if err := a.redis.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	e.is("Unlock after Close", held.Unlock(), lockmw.ErrClosed)
	e.eventually(e.soon, func() string {
		if e.admin.Exists(e.ctx, e.redisKey(key)).Val() == 0 {
			return ""
		}
		return "the lock is still there"
	})
}

func warnsOfEviction(e *env) {
	e.setMaxMemory("100mb")
	for policy, warnings := range map[string]int{
		"noeviction": 0, "volatile-ttl": 1,
		"allkeys-lru": 1, "allkeys-lfu": 1, "allkeys-random": 1,
		"volatile-lru": 1, "volatile-lfu": 1, "volatile-random": 1,
	} {
		if err := e.admin.ConfigSet(e.ctx, "maxmemory-policy", policy).Err(); err != nil {
			e.t.Fatal(err)
		}
		var log logbook
		c := e.client(lockmw.WithLogger(slog.New(&log)))
		for range 5 {
			e.unlock(e.lock(c, e.key("user")))
		}
		e.eventually(patience, func() string {
			if got := log.about("maxmemory"); len(got) < warnings {
				return policy + ": no warning"
			}
			return ""
		})
		if err := c.redis.Close(); err != nil { // whatever looks at the policy has ended then
			e.t.Error(err)
		}
		if got := log.about("maxmemory"); len(got) != warnings {
			e.t.Errorf("%s: warnings are %q, want %d", policy, got, warnings)
		}
	}
}

// A logbook keeps the warnings that are logged.
type logbook struct {
	mu      sync.Mutex
	records []string
}

func (l *logbook) about(what string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, r := range l.records {
		if strings.Contains(r, what) {
			found = append(found, r)
		}
	}
	return found
}

func (l *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.records = append(l.records, text)
	return nil
}

func (l *logbook) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logbook) WithGroup(string) slog.Handler      { return l }
