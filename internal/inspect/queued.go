package inspect

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/lockmw/go/internal/transport"
)

// queuedPage is the number of the server's keys that one SCAN for queues examines. It is larger than pageSize, because few keys match.
const queuedPage = 1000

// Queued yields the status of each key that has a queue, and of the keys in also. It scans as All does, but reads the statuses of
// these keys only, without kept places.
func (i *Inspector) Queued(ctx context.Context, also []string, how Scan) iter.Seq2[*Status, error] {
	return i.reading(ctx, how, queuedPage, 1, func(s *scan) error { return s.runQueued(also) })
}

// Read yields the status of each of keys, without kept places. It omits free keys.
func (i *Inspector) Read(ctx context.Context, keys []string, how Scan) iter.Seq2[*Status, error] {
	return i.reading(ctx, how, 0, 0, func(s *scan) error {
		err := s.read(s.want(keys))
		s.pages.tell()
		return err
	})
}

// reading yields the statuses that run reads, in a number of scans with pages of this size.
func (i *Inspector) reading(ctx context.Context, how Scan, size, scans int, run func(*scan) error) iter.Seq2[*Status, error] {
	return func(yield func(*Status, error) bool) {
		pages, err := i.newPages(ctx, how, size, scans)
		if err == nil {
			s := &scan{Inspector: i, ctx: ctx, pages: pages, sender: i.newSender(), yield: yield, seen: newSeen(cmp.Or(how.maxSeen, maxSeen))}
			defer s.sender.Stop()
			err = run(s)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, transport.Failure(err))
		}
	}
}

// want returns the keys to read, without the keys that were read before.
func (s *scan) want(keys []string) (found []*wanted) {
	for _, key := range keys {
		if s.seen.add(key) {
			found = append(found, &wanted{key: key})
		}
	}
	return found
}

func (s *scan) runQueued(also []string) error {
	err := s.pages.each(s.ctx, s.layout.QueuePattern(), func(redisKeys []string) error {
		var queued []string
		for _, redisKey := range redisKeys {
			if key, ok := s.layout.QueueOf(redisKey); ok {
				queued = append(queued, key)
			}
		}
		return s.read(s.want(queued))
	})
	if err != nil {
		return err
	}
	return s.read(s.want(also))
}
