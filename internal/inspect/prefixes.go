package inspect

import (
	"context"
	"maps"
	"slices"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

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
