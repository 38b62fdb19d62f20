package verify

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/wire"
)

// MaxKeys is the maximum number of keys in Redis at any time.
const MaxKeys = 1000

// markLife is how long a mark may exist, and some more: see isMark.
const markLife = 70 * time.Second

// isMark reports whether a key is the mark of one call, which expires within a minute.
func isMark(key string) bool { return strings.Contains(key, ":done:") }

// watchScripts counts the scripts on w in the budget. Before a script is sent, it calls wrote with the keys that the script may
// write, except known ones, so that they can be removed even if this process is killed.
func watchScripts(w *wire.Wire, b *budget, wrote func(keys []string)) {
	var n names
	w.Watch(func(c wire.Command) {
		if c.IsScript() {
			b.spend()
			wrote(n.fresh(c))
		}
	})
}

// names remember which keys a process has named in scripts.
type names struct {
	seen       map[string]bool
	young, old map[string]bool // marks
}

// keptMarks is the number of marks after which older ones are forgotten.
const keptMarks = 5000

// acquireArgs is the least number of arguments of a script that asks for a lock; scripts that end an unknown call have fewer.
const acquireArgs = 5

// fresh returns the keys that a script may write, except known ones. A script that asks for a lock names the mark of its call
// for the first time, and only reads it.
func (n *names) fresh(c wire.Command) (fresh []string) {
	keys, args := c.Script()
	if n.seen == nil {
		n.seen, n.young = make(map[string]bool), make(map[string]bool)
	}
	for _, key := range keys {
		switch {
		case !isMark(key):
			if !n.seen[key] {
				n.seen[key] = true
				fresh = append(fresh, key)
			}
		case n.young[key] || n.old[key] || len(args) < acquireArgs:
			fresh = append(fresh, key)
		default:
			if len(n.young) >= keptMarks {
				n.old, n.young = n.young, make(map[string]bool)
			}
			n.young[key] = true
		}
	}
	return fresh
}

// keys are the keys that scripts may have written. It is safe for concurrent use.
type keys struct {
	prefix string

	mu    sync.Mutex
	names map[string]time.Time // when it was last named
}

func newKeys(prefix string) *keys { return &keys{prefix: prefix, names: make(map[string]time.Time)} }

// add adds keys that a script may write.
func (k *keys) add(names []string) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		if strings.HasPrefix(name, k.prefix+":") { // scripts name no others
			k.names[name] = now
		}
	}
}

// count drops expired keys, and returns the number of the others.
func (k *keys) count() int {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, at := range k.names {
		if isMark(name) && now.Sub(at) > markLife {
			delete(k.names, name)
		}
	}
	return len(k.names)
}

// remove deletes the keys, a few at a time.
func (k *keys) remove(ctx context.Context, rdb redis.UniversalClient) error {
	const batch, rest = 50, 5 * time.Millisecond
	k.mu.Lock()
	defer k.mu.Unlock()
	for names := range slices.Chunk(slices.Collect(maps.Keys(k.names)), batch) {
		pipe := rdb.Pipeline()
		for _, name := range names {
			pipe.Del(ctx, name) // one key each, because in a Cluster they are in different slots
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		pause.For(ctx, rest)
	}
	return nil
}
