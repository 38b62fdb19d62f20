package engine

import (
	"sync"
	"sync/atomic"
)

// An id names one request for a lock, the ticket and the hold that come of it. As an argument of a
// command it counts how often the command was written to a connection: go-redis repeats a command
// whose reply was lost, and a copy that got stuck on the way may still arrive.
type id struct {
	text   string
	copies atomic.Int32
}

func (i *id) String() string { return i.text }

// MarshalBinary is called by go-redis each time it writes the command.
func (i *id) MarshalBinary() ([]byte, error) {
	i.copies.Add(1)
	return []byte(i.text), nil
}

// markMillis is how long the id is to be remembered as over when its hold ends: only if more than one
// copy of its acquire was sent, so that one may still arrive.
func (i *id) markMillis() int64 {
	if i.copies.Load() > 1 {
		return doneMillis
	}
	return 0
}

// An idTable finds what an id stands for: a *request or a *lease.
type idTable struct {
	mu sync.Mutex
	m  map[string]any
}

func (t *idTable) set(id *id, v any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = make(map[string]any)
	}
	t.m[id.text] = v
}

func (t *idTable) remove(id *id) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id.text)
}

func (t *idTable) find(text string) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[text]
}

// requests returns the requests that have no grant yet.
func (t *idTable) requests() []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*request
	for _, v := range t.m {
		if r, ok := v.(*request); ok {
			list = append(list, r)
		}
	}
	return list
}
