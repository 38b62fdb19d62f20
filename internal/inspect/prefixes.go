package inspect

import (
	"context"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
)

// Prefixes scans for the prefixes that locks were taken with, in alphabetic order: each has a fencing counter.
func (i *Inspector) Prefixes(ctx context.Context) ([]string, error) {
	nodes, err := i.masters(ctx)
	if err != nil {
		return nil, script.Failure(err)
	}
	seen := make(map[string]bool)
	for _, node := range nodes {
		if err := seePrefixes(ctx, node, seen); err != nil {
			return nil, script.Failure(err)
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func seePrefixes(ctx context.Context, node redis.Cmdable, seen map[string]bool) error {
	keys := node.Scan(ctx, 0, script.CounterPattern, 1000).Iterator()
	for keys.Next(ctx) {
		if prefix, ok := script.PrefixOfCounter(keys.Val()); ok {
			seen[prefix] = true
		}
	}
	return keys.Err()
}
