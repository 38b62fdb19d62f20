package keyed

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// The names of locks whose kind is not shown.
const (
	NoKind = "lock"  // the key has none
	Other  = "other" // there are too many
)

// MaxKinds is how many kinds have names of their own.
const MaxKinds = 100

// Kind returns the kind of thing that a key is about: what stands before its first ':', NoKind if nothing does.
func Kind(key string) string {
	kind, _, found := strings.Cut(key, ":")
	if !found || kind == "" {
		return NoKind
	}
	return kind
}

// Kinds bounds how many kinds are shown, should they contain IDs. The zero Kinds has seen none. Safe for concurrent use.
type Kinds struct {
	known    atomic.Pointer[map[string]string] // read far more often than written, so a write replaces the map
	mu       sync.Mutex                        // guards writing
	overflow atomic.Bool
}

// Name returns Kind for a key of the first MaxKinds kinds, and Other for a key of another one. The first call that returns
// Other reports true.
func (k *Kinds) Name(key string) (name string, first bool) {
	kind := Kind(key)
	if kind == NoKind {
		return kind, false
	}
	known := k.known.Load()
	if known == nil || (*known)[kind] == "" && len(*known) < MaxKinds {
		known = k.add(strings.Clone(kind)) // without the key in which it stands
	}
	if name = (*known)[kind]; name == "" {
		return Other, !k.overflow.Swap(true)
	}
	return name, false
}

// add returns the known kinds with one more, if there is room for it.
func (k *Kinds) add(kind string) *map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.known.Load()
	if old != nil && len(*old) >= MaxKinds {
		return old
	}
	known := map[string]string{kind: kind}
	if old != nil {
		maps.Copy(known, *old)
	}
	k.known.Store(&known)
	return &known
}
