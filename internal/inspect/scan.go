package inspect

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
)

// batchSize is the number of statuses in a batch. A server answers a whole batch before it serves other clients.
const batchSize = 32

// A Scan configures All.
type Scan struct {
	Share    float64        // maximum part of the time that a server works for the scan: more than 0, at most 1
	Progress func(Progress) // called after each page; may be nil

	pageSize, maxSeen int // for tests; 0: the defaults
}

// A Progress is the progress of a scan.
type Progress struct {
	Locks int     // number of locks read
	Part  float64 // estimated part of the servers' keys that were examined, up to 1
}

// A scan is one run of All.
type scan struct {
	*Inspector
	ctx    context.Context
	pages  *pages
	sender *transport.Sender
	yield  func(*Status, error) bool

	kept map[string][]string // names of kept places by key; only keys that were not yielded yet
	seen *seen
}

// All yields the status of each key that has a holder, a waiter or a kept place. It yields an unreadable key with its error. An error
// without a status ends the scan. All keeps in memory: a page of keys, a batch of statuses, the names of all kept places, and the hashes
// of seen.
func (i *Inspector) All(ctx context.Context, how Scan) iter.Seq2[*Status, error] {
	return i.reading(ctx, how, cmp.Or(how.pageSize, pageSize), 2, (*scan).run)
}

// errEnough means that the caller has stopped the iteration.
var errEnough = errors.New("enough")

// run reads kept places first, because the status of a key contains them.
func (s *scan) run() (err error) {
	if s.kept, err = s.keptPlaces(s.ctx, s.pages, s.layout.AllKeptPattern()); err != nil {
		return err
	}
	if err := s.pages.each(s.ctx, s.layout.Pattern(), s.readPage); err != nil {
		return err
	}
	var left []*wanted // keys with kept places only
	for key, names := range s.kept {
		left = append(left, &wanted{key: key, kept: names})
	}
	return s.read(left)
}

// readPage reads the keys of a page of Redis keys. A key with a holder and a queue has two Redis keys: it is read for its holder, and
// for its queue only if it has no holder.
func (s *scan) readPage(redisKeys []string) error {
	var found []*wanted
	for _, redisKey := range redisKeys {
		key, ok := s.layout.KeyOf(redisKey)
		_, byHolder := s.layout.Key(redisKey)
		if ok && (byHolder && s.seen.add(key) || !byHolder && !s.seen.has(key)) {
			found = append(found, &wanted{key: key, kept: s.kept[key], byQueue: !byHolder})
		}
	}
	return s.read(found)
}

// read reads statuses and yields them, a batch at a time.
func (s *scan) read(found []*wanted) error {
	for batch := range slices.Chunk(found, batchSize) {
		err := s.pages.pace.work(s.ctx, func() error {
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

// outage returns an error that concerns more than one key.
func outage(batch []*wanted) error {
	for _, w := range batch {
		if w.err != nil && !w.isOwn() {
			return w.err
		}
	}
	return nil
}

// show yields the status of a key. It returns an error that concerns more than this key, which ends the scan.
func (s *scan) show(w *wanted) error {
	switch {
	case w.isOwn():
		w.status = &Status{Key: w.key}
	case w.err != nil:
		return w.err
	case w.status.Mode == "" && len(w.status.Waiters) == 0 && len(w.status.Kept) == 0:
		return nil // free by now
	case w.byQueue && w.status.Mode != "":
		return nil // read for its holder
	}
	if w.byQueue && !s.seen.add(w.key) {
		return nil
	}
	delete(s.kept, w.key)
	s.pages.locks++
	if !s.yield(w.status, w.failure()) {
		return errEnough
	}
	return nil
}

// A pace limits the work of servers to a share of the time, by a pause after each piece of work.
type pace struct {
	share float64
	owed  time.Duration // pauses that are still due
}

// shortestPause is the shortest pause. Shorter ones are added up, because timers are not more precise.
const shortestPause = time.Millisecond

// work runs f, which queries a server, and then pauses. It returns an error of f immediately, and the error of ctx after the pause.
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

// A seen stores hashes of the last keys. Among 100,000 keys, two collide in one of 10^9 scans.
type seen struct {
	limit      int // for each of young and old
	seed       maphash.Seed
	young, old map[uint64]struct{}
}

// maxSeen is the minimum number of stored keys; the maximum is twice as many, which take some 10 MB. SCAN repeats keys when a hash table
// shrinks, and then soon after.
const maxSeen = 1 << 18

func newSeen(limit int) *seen {
	return &seen{limit: limit, seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
}

// has reports whether a key is stored.
func (s *seen) has(key string) bool {
	h := maphash.String(s.seed, key)
	_, young := s.young[h]
	_, old := s.old[h]
	return young || old
}

// add stores a key and reports whether it is new.
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
