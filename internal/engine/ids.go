package engine

import (
	"sync"

	"github.com/lockmw/go/internal/script"
)

// An idTable finds the *request or *lease of an id.
type idTable struct {
	mu sync.Mutex
	m  map[uint64]any
}

func (t *idTable) set(id *script.ID, v any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = make(map[uint64]any)
	}
	t.m[id.Number()] = v
}

func (t *idTable) remove(id *script.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id.Number())
}

func (t *idTable) find(n uint64) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[n]
}

// leases returns all leases.
func (t *idTable) leases() []*lease { return listOf[*lease](t) }

// requests returns all requests that are not granted yet.
func (t *idTable) requests() []*request { return listOf[*request](t) }

func listOf[T any](t *idTable) (list []T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.m {
		if v, ok := v.(T); ok {
			list = append(list, v)
		}
	}
	return list
}

// inUse returns the numbers of the requests and leases of each key.
func (t *idTable) inUse() map[lockKey][]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[lockKey][]uint64)
	for n, v := range t.m {
		k := lockKeyOf(v)
		all[k] = append(all[k], n)
	}
	return all
}

// of returns the requests and leases of a key.
func (t *idTable) of(k lockKey) (all []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.m {
		if lockKeyOf(v) == k {
			all = append(all, v)
		}
	}
	return all
}

// lockKeyOf returns the key of a *request or *lease.
func lockKeyOf(v any) lockKey {
	switch v := v.(type) {
	case *request:
		return v.c.lockKey()
	case *lease:
		return v.c.lockKey()
	}
	return lockKey{}
}
