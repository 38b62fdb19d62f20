package inspector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

// A hub has everything that is read from Redis, once for all viewers.
type hub struct {
	insp  *lockmw.Inspector
	shown func(key string) string
	pace  pace

	searches *queue
	trend    *trend
	tasks    *taskReader
	locks    *feed[*snapshot]
	queues   *feed[*snapshot] // locks with waiters, while reading all locks takes long
	servers  *feed[[]lockmw.Server]
	prefixes *feed[[]string]
	kept     *feed[map[string][]string] // names of kept places, by key
	events   *feed[past]
	findings *feed[[]doctor.Finding]

	keys      feeds[keyStatus]
	processes feeds[presence]

	mu     sync.Mutex
	merged *snapshot // of the last readings of locks and queues
	from   [2]*snapshot
}

// A keyStatus is the status of a key, or the reason why the value in Redis is not a lock.
type keyStatus struct {
	lockmw.Status
	wrong   error
	tasks   parked.List
	noTasks error // why the tasks could not be read
}

func newHub(insp *lockmw.Inspector, shown func(string) string) *hub {
	h := &hub{insp: insp, shown: shown, searches: newQueue(), trend: newTrend()}
	h.tasks = &taskReader{reader: parked.NewReader(insp.Redis(), insp.Prefix())}
	h.locks = newScan(&h.pace, ofLocks, time.Second, h.readAll)
	h.queues = newScan(&h.pace, ofQueues, time.Second, h.readQueues)
	h.servers = newFeed(&h.pace, 2*time.Second, insp.Servers)
	h.prefixes = newScan(&h.pace, ofOthers, 30*time.Second, scanFor(insp.Prefixes))
	h.kept = newScan(&h.pace, ofOthers, 5*time.Second, scanFor(insp.KeptNames))
	h.events = newScan(&h.pace, ofOthers, 2*time.Second, h.readEvents)
	h.findings = newFeed(&h.pace, time.Minute, h.examine)
	h.keys = feeds[keyStatus]{pace: &h.pace, byName: make(map[string]*feed[keyStatus])}
	h.keys.read = func(ctx context.Context, key string, _ keyStatus, _ func()) (keyStatus, error) {
		return h.readKey(ctx, key)
	}
	h.processes = feeds[presence]{pace: &h.pace, byName: make(map[string]*feed[presence])}
	h.processes.load, h.processes.keeps, h.processes.read = scanShare, keepsPresence, h.readProcess
	return h
}

// newFeed returns a feed of what one command returns.
func newFeed[T any](p *pace, every time.Duration, read func(context.Context) (T, error)) *feed[T] {
	return &feed[T]{pace: p, class: ofOthers, every: every, read: func(ctx context.Context, _ T, _ func()) (T, error) { return read(ctx) }}
}

// newScan returns a feed of the result of a scan.
func newScan[T any](p *pace, class int, every time.Duration, scan func(context.Context, T, func()) (T, error)) *feed[T] {
	return &feed[T]{pace: p, class: class, every: every, load: scanShare, read: scan}
}

// scanFor returns the function of a feed that calls scan.
func scanFor[T any](scan func(context.Context, ...lockmw.ScanOption) (T, error)) func(context.Context, T, func()) (T, error) {
	return func(ctx context.Context, _ T, alive func()) (T, error) { return scan(ctx, gently(alive)...) }
}

// gently makes a scan take its share of the server's time, and report each page to its feed.
func gently(alive func()) []lockmw.ScanOption {
	return []lockmw.ScanOption{lockmw.WithShare(scanShare), lockmw.WithScanProgress(func(lockmw.ScanProgress) { alive() })}
}

// examine runs the checks of package doctor on the servers. It writes nothing.
func (h *hub) examine(ctx context.Context) ([]doctor.Finding, error) {
	o := doctor.Options{Prefix: h.insp.Prefix(), SlottedKeys: h.insp.HasSlottedKeys(), Lease: 30 * time.Second, ReadOnly: true}
	return slices.Collect(doctor.Examine(ctx, h.insp.Redis(), o)), ctx.Err()
}

// scanShare is the part of the server's time that a running scan may take. The pauses between scans compensate for it.
const scanShare = 0.25

// showEvery is the interval at which a scan shows partial results.
const showEvery = 500 * time.Millisecond

// A feeds has all feeds of one kind, such as the feeds of keys. Their first reads have a bound.
type feeds[T any] struct {
	pace  *pace
	load  float64 // as in feed
	read  func(ctx context.Context, name string, last T, alive func()) (T, error)
	keeps func(reading[T]) bool // whether a feed without viewers is kept; may be nil

	mu     sync.Mutex
	byName map[string]*feed[T]
}

// of returns the feed of a name. If it is new, feeds that are not needed any more are dropped.
func (fs *feeds[T]) of(name string) *feed[T] {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, ok := fs.byName[name]
	if !ok {
		maps.DeleteFunc(fs.byName, func(_ string, old *feed[T]) bool { return old.idle() && (fs.keeps == nil || !fs.keeps(old.now())) })
		f = &feed[T]{pace: fs.pace, class: ofOthers, every: time.Second, load: fs.load, first: true}
		f.read = func(ctx context.Context, last T, alive func()) (T, error) { return fs.read(ctx, name, last, alive) }
		fs.byName[name] = f
	}
	return f
}

// entry returns the entry of a key that was just read.
func (h *hub) entry(status lockmw.Status, err error) *entry {
	return newEntry(status, err, time.Now(), h.shown(status.Key))
}

// readAll reads all locks.
func (h *hub) readAll(ctx context.Context, _ *snapshot, alive func()) (*snapshot, error) {
	var entries []*entry
	shown := time.Now()
	advance := func() {
		alive()
		if time.Since(shown) >= showEvery && len(entries) > 0 {
			shown = time.Now()
			h.locks.sofar(newSnapshot(slices.Clip(entries)))
		}
	}
	for status, err := range h.insp.All(ctx, gently(advance)...) { // it also reports pages without a lock
		if err != nil && status.Key == "" {
			return nil, err
		}
		entries = append(entries, h.entry(status, err))
		advance()
	}
	all := newSnapshot(entries)
	if ctx.Err() == nil {
		h.trend.wait(all.totals.Waiting)
	}
	return all, ctx.Err()
}

// often is the maximum age of a reading of all locks that makes an extra read of the queues unnecessary.
const often = 2 * time.Second

// readQueues reads the locks that have waiters, and those that had waiters at the last read. It reads nothing if all locks have just
// been read.
func (h *hub) readQueues(ctx context.Context, last *snapshot, alive func()) (*snapshot, error) {
	all := h.locks.now()
	if !all.whole || time.Since(all.at) < often {
		return nil, nil //nolint:nilnil // nothing to add
	}
	free := make(map[string]bool) // unless Queued returns the key
	for _, e := range all.value.entries {
		if e.waiting > 0 {
			free[e.Key] = true
		}
	}
	if last != nil {
		for _, e := range last.entries {
			if e.state != stateFree {
				free[e.Key] = true
			}
		}
	}
	var entries []*entry
	for status, err := range h.insp.Queued(ctx, slices.Collect(maps.Keys(free)), gently(alive)...) {
		if err != nil && status.Key == "" {
			return nil, err
		}
		delete(free, status.Key)
		entries = append(entries, h.entry(status, err))
	}
	for key := range free {
		entries = append(entries, h.entry(lockmw.Status{Key: key}, nil))
	}
	return &snapshot{entries: entries}, ctx.Err()
}

// all returns all locks. Locks with waiters may come from a later read than the others.
func (h *hub) all() reading[*snapshot] {
	all, queues := h.locks.now(), h.queues.now()
	if !all.whole || queues.value == nil || !queues.at.After(all.at) {
		return all
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if from := [2]*snapshot{all.value, queues.value}; h.from != from {
		h.from, h.merged = from, merge(from[0], from[1])
		h.trend.wait(h.merged.totals.Waiting)
	}
	all.value = h.merged
	return all
}

// merge returns the locks of all, updated with the newer entries of later.
func merge(all, later *snapshot) *snapshot {
	byKey := make(map[string]*entry, len(later.entries))
	for _, e := range later.entries {
		byKey[e.Key] = e
	}
	entries := make([]*entry, 0, len(all.entries)+len(later.entries))
	for _, e := range all.entries {
		if l, ok := byKey[e.Key]; ok {
			delete(byKey, e.Key)
			status := l.Status
			status.Kept = e.Kept
			e = newEntry(status, l.err, l.at, l.shown)
		}
		if e.state != stateFree {
			entries = append(entries, e)
		}
	}
	for _, e := range later.entries {
		if byKey[e.Key] != nil && e.state != stateFree {
			entries = append(entries, e)
		}
	}
	return newSnapshot(entries)
}

func (h *hub) readKey(ctx context.Context, key string) (keyStatus, error) {
	status, err := h.insp.Get(ctx, key, h.kept.now().value[key]...)
	status.Key = key
	if errors.Is(err, lockmw.ErrWrongType) {
		return keyStatus{Status: status, wrong: err}, nil
	}
	if err != nil {
		return keyStatus{Status: status}, err
	}
	tasks, err := h.tasks.read(ctx, key)
	return keyStatus{Status: status, tasks: tasks, noTasks: err}, ctx.Err()
}
