package keyed

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Names for keys whose kind is not shown.
const (
	NoKind = "lock"  // the key has no kind
	Other  = "other" // there are too many kinds
)

// MaxKinds is the number of kinds that are shown by their names.
const MaxKinds = 100

// Kind returns the part of a key before its first ':', or NoKind if there is none.
func Kind(key string) string {
	kind, _, found := strings.Cut(key, ":")
	if !found || kind == "" {
		return NoKind
	}
	return kind
}

// Kinds limits how many kinds are shown, in case kinds contain IDs. The zero Kinds is ready to use. It is safe for concurrent
// use.
type Kinds struct {
	known    atomic.Pointer[map[string]string] // read far more often than written, so a write replaces the map
	mu       sync.Mutex                        // guards writing
	overflow atomic.Bool
}

// Name returns the kind of a key if it is among the first MaxKinds kinds, and otherwise Other. It also reports whether this is
// the first call that returns Other.
func (k *Kinds) Name(key string) (name string, first bool) {
	kind := Kind(key)
	if kind == NoKind {
		return kind, false
	}
	known := k.known.Load()
	if known == nil || (*known)[kind] == "" && len(*known) < MaxKinds {
		known = k.add(strings.Clone(kind)) // a copy, so that it does not keep the key in memory
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
