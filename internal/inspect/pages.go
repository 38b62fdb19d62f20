package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// pageSize is the number of the server's keys that one SCAN examines. It delays other commands by some 0.3 ms.
const pageSize = 250

// pages runs SCAN over all masters.
type pages struct {
	how   Scan
	pace  pace
	nodes []redis.Cmdable
	size  int
	locks int // number of locks read

	scans  int    // number of scans over all masters; 0: certain keys are read
	done   int    // number of finished scans of a master
	cursor uint64 // of the current scan
}

// newPages returns the pages for a number of scans over all masters.
func (i *Inspector) newPages(ctx context.Context, how Scan, size, scans int) (p *pages, err error) {
	p = &pages{how: how, pace: pace{share: how.Share}, size: size, scans: scans}
	if scans > 0 {
		p.nodes, err = i.masters(ctx)
	}
	return p, err
}

// each calls f with the Redis keys of each page, until it returns an error. After each page it reports the progress.
func (p *pages) each(ctx context.Context, pattern string, f func(redisKeys []string) error) error {
	for _, node := range p.nodes {
		for more := true; more; more = p.cursor != 0 {
			var keys []string
			err := p.pace.work(ctx, func() (err error) {
				keys, p.cursor, err = node.Scan(ctx, p.cursor, pattern, int64(p.size)).Result()
				return err
			})
			if err != nil {
				return err
			}
			if p.cursor == 0 {
				p.done++
			}
			err = f(keys)
			p.tell()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tell reports the progress.
func (p *pages) tell() {
	if p.how.Progress != nil {
		p.how.Progress(Progress{Locks: p.locks, Part: p.part()})
	}
}

// part estimates how much of all scans is done. The cursor of a single server counts through the hash table from its highest bit. Nodes
// of a Cluster use another cursor, so there only finished scans count.
func (p *pages) part() float64 {
	if p.scans == 0 {
		return 1
	}
	done := float64(p.done)
	if len(p.nodes) == 1 {
		done += float64(bits.Reverse64(p.cursor)>>1) / (1 << 63)
	}
	return done / float64(p.scans*len(p.nodes))
}

// keptPlaces scans for the names of kept places, by key.
func (i *Inspector) keptPlaces(ctx context.Context, p *pages, pattern string) (map[string][]string, error) {
	kept := make(map[string][]string)
	err := p.each(ctx, pattern, func(redisKeys []string) error {
		for _, redisKey := range redisKeys {
			if key, name, ok := i.layout.KeptPlaceOf(redisKey); ok {
				kept[key] = append(kept[key], name)
			}
		}
		return nil
	})
	for key, names := range kept {
		slices.Sort(names)
		kept[key] = slices.Compact(names) // SCAN may return a key twice
	}
	return kept, err
}

// KeptFor scans for the names of the kept places of a key.
func (i *Inspector) KeptFor(ctx context.Context, key string, how Scan) ([]string, error) {
	kept, err := i.keptLike(ctx, i.layout.KeptPattern(key), how)
	return kept[key], err
}

// KeptNames scans for the names of all kept places, by key.
func (i *Inspector) KeptNames(ctx context.Context, how Scan) (map[string][]string, error) {
	return i.keptLike(ctx, i.layout.AllKeptPattern(), how)
}

// keptLike scans for the names of the kept places whose Redis keys match a pattern, by key.
func (i *Inspector) keptLike(ctx context.Context, pattern string, how Scan) (map[string][]string, error) {
	var kept map[string][]string
	p, err := i.newPages(ctx, how, cmp.Or(how.pageSize, pageSize), 1)
	if err == nil {
		kept, err = i.keptPlaces(ctx, p, pattern)
	}
	return kept, transport.Failure(err)
}

// Prefixes scans for the prefixes that locks have used, in alphabetic order. It finds them by their fencing counters.
func (i *Inspector) Prefixes(ctx context.Context, how Scan) ([]string, error) {
	seen := make(map[string]bool)
	p, err := i.newPages(ctx, how, pageSize, 1)
	if err == nil {
		err = p.each(ctx, script.CounterPattern, func(redisKeys []string) error {
			for _, redisKey := range redisKeys {
				if prefix, ok := script.PrefixOfCounter(redisKey); ok {
					seen[prefix] = true
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, transport.Failure(err)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// masters returns the servers to scan.
func (i *Inspector) masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster := transport.ClusterOf(i.rdb)
	switch {
	case !i.topology.Cluster:
		return []redis.Cmdable{i.rdb}, nil
	case cluster == nil:
		return nil, fmt.Errorf("a Redis client of type %T does not show the masters of its Cluster; use the client that it wraps: %w",
			i.rdb, errors.ErrUnsupported)
	}
	var mu sync.Mutex
	var nodes []redis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	return nodes, err
}
