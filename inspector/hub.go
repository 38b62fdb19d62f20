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
	events   *feed[*past]
	findings *feed[[]doctor.Finding]

	mu        sync.Mutex
	keys      map[string]*feed[keyStatus]
	processes map[string]*feed[*presence]
	merged    *snapshot // of the last readings of locks and queues
	from      [2]*snapshot
}

// A keyStatus is the status of a key, or the reason why the value in Redis is not a lock.
type keyStatus struct {
	lockmw.Status
	wrong error
	tasks parked.List
}

func newHub(insp *lockmw.Inspector, shown func(string) string) *hub {
	h := &hub{insp: insp, shown: shown, searches: newQueue(), trend: newTrend(), keys: make(map[string]*feed[keyStatus]), processes: make(map[string]*feed[*presence])}
	h.tasks = &taskReader{reader: parked.NewReader(insp.Redis(), insp.Prefix())}
	h.locks = &feed[*snapshot]{pace: &h.pace, class: ofLocks, every: time.Second, load: scanShare, read: h.readAll}
	h.queues = &feed[*snapshot]{pace: &h.pace, class: ofQueues, every: time.Second, load: scanShare, read: h.readQueues}
	h.servers = newFeed(&h.pace, 2*time.Second, insp.Servers)
	h.prefixes = newScan(&h.pace, 30*time.Second, insp.Prefixes)
	h.kept = newScan(&h.pace, 5*time.Second, insp.KeptNames)
	h.events = &feed[*past]{pace: &h.pace, class: ofOthers, every: 2 * time.Second, load: scanShare, read: h.readEvents}
	h.findings = newFeed(&h.pace, time.Minute, h.examine)
	return h
}

func newFeed[T any](p *pace, every time.Duration, read func(context.Context) (T, error)) *feed[T] {
	return &feed[T]{pace: p, class: ofOthers, every: every, read: func(ctx context.Context, _ func(), _ func(T)) (T, error) { return read(ctx) }}
}

// newScan returns a feed of the result of a scan.
func newScan[T any](p *pace, every time.Duration, scan func(context.Context, ...lockmw.ScanOption) (T, error)) *feed[T] {
	return &feed[T]{pace: p, class: ofOthers, every: every, load: scanShare, read: func(ctx context.Context, alive func(), _ func(T)) (T, error) {
		return scan(ctx, lockmw.WithShare(scanShare), aliveAt(alive))
	}}
}

// aliveAt reports each page of a scan to its feed.
func aliveAt(alive func()) lockmw.ScanOption {
	return lockmw.WithScanProgress(func(lockmw.ScanProgress) { alive() })
}

// examine runs the checks of package doctor on the servers. It writes nothing.
func (h *hub) examine(ctx context.Context) (findings []doctor.Finding, err error) {
	o := doctor.Options{Prefix: h.insp.Prefix(), SlottedKeys: h.insp.HasSlottedKeys(), Lease: 30 * time.Second, ReadOnly: true}
	for f := range doctor.Examine(ctx, h.insp.Redis(), o) {
		findings = append(findings, f)
	}
	return findings, ctx.Err()
}

// scanShare is the part of the server's time that a running scan may take. The pauses between scans compensate for it.
const scanShare = 0.25

// showEvery is the interval at which a scan shows partial results.
const showEvery = 500 * time.Millisecond

// readAll reads all locks.
func (h *hub) readAll(ctx context.Context, alive func(), sofar func(*snapshot)) (*snapshot, error) {
	var entries []*entry
	shown := time.Now()
	advance := func() {
		alive()
		if time.Since(shown) >= showEvery && len(entries) > 0 {
			shown = time.Now()
			sofar(newSnapshot(slices.Clip(entries)))
		}
	}
	progress := lockmw.WithScanProgress(func(lockmw.ScanProgress) { advance() }) // also for pages without a lock
	for status, err := range h.insp.All(ctx, lockmw.WithShare(scanShare), progress) {
		if err != nil && status.Key == "" {
			return nil, err
		}
		entries = append(entries, newEntry(status, err, time.Now(), h.shown(status.Key)))
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
func (h *hub) readQueues(ctx context.Context, alive func(), _ func(*snapshot)) (*snapshot, error) {
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
	if last := h.queues.now().value; last != nil {
		for _, e := range last.entries {
			if e.state != stateFree {
				free[e.Key] = true
			}
		}
	}
	var entries []*entry
	add := func(status lockmw.Status, err error) {
		entries = append(entries, newEntry(status, err, time.Now(), h.shown(status.Key)))
	}
	for status, err := range h.insp.Queued(ctx, slices.Collect(maps.Keys(free)), lockmw.WithShare(scanShare), aliveAt(alive)) {
		if err != nil && status.Key == "" {
			return nil, err
		}
		delete(free, status.Key)
		add(status, err)
	}
	for key := range free {
		add(lockmw.Status{Key: key}, nil)
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

// key returns the feed of a key, and drops idle feeds of other keys.
func (h *hub) key(key string) *feed[keyStatus] {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.keys[key]
	if !ok {
		for old, f := range h.keys {
			if f.idle() {
				delete(h.keys, old)
			}
		}
		f = newFeed(&h.pace, time.Second, func(ctx context.Context) (keyStatus, error) { return h.readKey(ctx, key) })
		f.first = true
		h.keys[key] = f
	}
	return f
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
	return keyStatus{Status: status, tasks: tasks}, err
}
