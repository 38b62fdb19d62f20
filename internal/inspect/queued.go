package inspect

import (
	"context"
	"errors"
	"iter"

	"github.com/lockmw/go/internal/script"
)

// queuedPage is how many of the server's keys one SCAN for queues looks at: few of them match.
const queuedPage = 1000

// Queued yields the status of each key that has a queue, and of the keys in also. It scans as All does, but reads the statuses of
// these keys only, without kept places.
func (i *Inspector) Queued(ctx context.Context, also []string, how Scan) iter.Seq2[*Status, error] {
	return func(yield func(*Status, error) bool) {
		s := &scan{
			Inspector: i, ctx: ctx, pace: pace{share: how.Share}, sender: i.newSender(), yield: yield, seen: newSeen(maxSeen),
			told: how.tell,
		}
		defer s.sender.Stop()
		if err := s.runQueued(also); err != nil && !errors.Is(err, errEnough) {
			yield(nil, script.Failure(err))
		}
	}
}

func (s *scan) runQueued(also []string) error {
	nodes, err := s.masters(s.ctx)
	if err != nil {
		return err
	}
	s.pages = pages{pace: &s.pace, size: queuedPage, nodes: nodes, scans: 1}
	want := func(found []*wanted, key string) []*wanted {
		if s.seen.add(key) {
			found = append(found, &wanted{key: key})
		}
		return found
	}
	err = s.pages.each(s.ctx, s.layout.QueuePattern(), func(redisKeys []string) error {
		var found []*wanted
		for _, redisKey := range redisKeys {
			if key, ok := s.layout.QueueOf(redisKey); ok {
				found = want(found, key)
			}
		}
		err := s.read(found)
		s.tell()
		return err
	})
	if err != nil {
		return err
	}
	var left []*wanted
	for _, key := range also {
		left = want(left, key)
	}
	return s.read(left)
}
