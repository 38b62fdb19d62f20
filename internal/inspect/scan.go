package inspect

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// batchSize is how many statuses are asked for at once: a server answers them all before it serves others.
const batchSize = 32

// A Scan says how All scans.
type Scan struct {
	Share    float64        // of the time that a server works for the scan, at most: more than 0, up to 1
	Progress func(Progress) // called after each page; nil: nobody wants to know

	pageSize, maxSeen int // tests have less
}

// tell reports how far the scan has come.
func (s *Scan) tell(p Progress) {
	if s.Progress != nil {
		s.Progress(p)
	}
}

// A Progress is how far a scan has come.
type Progress struct {
	Locks int     // how many were read
	Part  float64 // of the servers' keys that were looked at, up to 1: an estimate
}

// A scan is a run of All.
type scan struct {
	*Inspector
	ctx    context.Context
	pace   pace
	pages  pages
	sender *transport.Sender
	told   func(Progress)
	yield  func(*Status, error) bool

	kept  map[string][]string // names of kept places by key, of those that were not yielded yet
	seen  *seen
	locks int
}

// All yields the status of each key that is held or waited for, or that a place is kept for. A key that cannot be read comes
// with its error; an error without a status is the end. All remembers a page of keys, a batch of statuses, the names of all kept
// places, and what seen does.
func (i *Inspector) All(ctx context.Context, how Scan) iter.Seq2[*Status, error] {
	return i.reading(ctx, how, func(s *scan) error { return s.run(cmp.Or(how.pageSize, pageSize)) })
}

// errEnough means that nobody wants to know more.
var errEnough = errors.New("enough")

// run looks for kept places first, so that the status of a key can have them.
func (s *scan) run(pageSize int) error {
	nodes, err := s.masters(s.ctx)
	if err != nil {
		return err
	}
	s.pages = pages{pace: &s.pace, nodes: nodes, size: pageSize, scans: 2}
	if s.kept, err = s.keptPlaces(s.ctx, &s.pages, s.layout.AllKeptPattern(), s.tell); err != nil {
		return err
	}
	if err := s.pages.each(s.ctx, s.layout.Pattern(), s.readPage); err != nil {
		return err
	}
	var left []*wanted // nobody holds them or waits for them
	for key, names := range s.kept {
		left = append(left, &wanted{key: key, kept: names})
	}
	return s.read(left)
}

// readPage reads the keys that a page of Redis keys is about. One that is held and has a queue comes up twice: its holder's key
// speaks for it, and its queue only if nobody holds it.
func (s *scan) readPage(redisKeys []string) error {
	var found []*wanted
	for _, redisKey := range redisKeys {
		key, ok := s.layout.KeyOf(redisKey)
		_, byHolder := s.layout.Key(redisKey)
		if ok && (byHolder && s.seen.add(key) || !byHolder && !s.seen.has(key)) {
			found = append(found, &wanted{key: key, kept: s.kept[key], byQueue: !byHolder})
		}
	}
	err := s.read(found)
	s.tell()
	return err
}

func (s *scan) tell() { s.told(Progress{Locks: s.locks, Part: s.pages.part()}) }

// read reads statuses and yields them, a batch at a time.
func (s *scan) read(found []*wanted) error {
	for batch := range slices.Chunk(found, batchSize) {
		err := s.pace.work(s.ctx, func() error {
			s.readAll(s.ctx, s.sender, batch)
			return outage(batch)
		})
		for _, w := range batch {
			if err := s.show(w); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outage returns an error that is not of one key alone.
func outage(batch []*wanted) error {
	for _, w := range batch {
		if w.err != nil && !errors.Is(w.failure(), core.ErrWrongType) && !transport.IsMoving(w.err) {
			return w.err
		}
	}
	return nil
}

// show yields what was read of a key. An error that is not of this key alone is the end.
func (s *scan) show(w *wanted) error {
	switch {
	case errors.Is(w.failure(), core.ErrWrongType), transport.IsMoving(w.err):
		w.status = &Status{Key: w.key}
	case w.err != nil:
		return w.err
	case w.status.Mode == "" && len(w.status.Waiters) == 0 && len(w.status.Kept) == 0:
		return nil // gone meanwhile
	case w.byQueue && w.status.Mode != "":
		return nil // it comes by its holder
	}
	if w.byQueue && !s.seen.add(w.key) {
		return nil
	}
	delete(s.kept, w.key)
	s.locks++
	if !s.yield(w.status, w.failure()) {
		return errEnough
	}
	return nil
}

// A pace keeps work for servers within a share of the time: after what took a while come pauses.
type pace struct {
	share float64
	owed  time.Duration // how long it has still to pause
}

// shortestPause is below which pauses add up: timers are no more exact than that.
const shortestPause = time.Millisecond

// work runs f, which asks a server, and pauses. It returns f's error immediately, and the end of ctx.
func (p *pace) work(ctx context.Context, f func() error) error {
	started := time.Now()
	if err := f(); err != nil {
		return err
	}
	p.owed += time.Duration(float64(time.Since(started)) * (1/p.share - 1))
	if p.owed < shortestPause {
		return ctx.Err()
	}
	owed := p.owed
	p.owed = 0
	pause.For(ctx, owed)
	return ctx.Err()
}

// Prefixes scans for the prefixes that locks were taken with, in alphabetic order: each has a fencing counter.
func (i *Inspector) Prefixes(ctx context.Context, how Scan) ([]string, error) {
	nodes, err := i.masters(ctx)
	if err != nil {
		return nil, transport.Failure(err)
	}
	seen := make(map[string]bool)
	p := &pages{pace: &pace{share: how.Share}, nodes: nodes, size: pageSize, scans: 1}
	err = p.each(ctx, script.CounterPattern, func(redisKeys []string) error {
		for _, redisKey := range redisKeys {
			if prefix, ok := script.PrefixOfCounter(redisKey); ok {
				seen[prefix] = true
			}
		}
		how.tell(Progress{Part: p.part()})
		return nil
	})
	if err != nil {
		return nil, transport.Failure(err)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// A seen remembers the last keys, by a hash of each. Two of 100,000 keys are taken for one in one of 10^9 scans.
type seen struct {
	limit      int // of young and of old
	seed       maphash.Seed
	young, old map[uint64]struct{}
}

// maxSeen is how many keys are remembered at least, and half of how many at most: some 10 MB then. SCAN repeats itself when a
// hash table shrinks, and then soon.
const maxSeen = 1 << 18

func newSeen(limit int) *seen {
	return &seen{limit: limit, seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
}

// has reports whether a key is remembered.
func (s *seen) has(key string) bool {
	h := maphash.String(s.seed, key)
	_, young := s.young[h]
	_, old := s.old[h]
	return young || old
}

// add remembers a key, and reports whether it is new.
func (s *seen) add(key string) bool {
	if s.has(key) {
		return false
	}
	if len(s.young) >= s.limit {
		s.young, s.old = make(map[uint64]struct{}), s.young
	}
	s.young[maphash.String(s.seed, key)] = struct{}{}
	return true
}
