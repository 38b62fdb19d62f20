package engine

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// An id names one request for a lock, the ticket and the hold that come of it: the engine's stem and a
// number. As an argument of a command it counts how often the command was written to a connection:
// go-redis repeats a command whose reply was lost, and a copy that got stuck on the way may still
// arrive.
type id struct {
	stem     *idStem
	n        uint64
	copies   atomic.Int32
	releases atomic.Int32 // how often the release of its hold was written
}

// An idStem is what the ids of an engine begin with.
type idStem string

func (s idStem) appendID(n uint64) []byte {
	b := make([]byte, 0, len(s)+13)
	return strconv.AppendUint(append(b, s...), n, 36)
}

// number is the reverse of appendID.
func (s idStem) number(text string) (n uint64, ok bool) {
	rest, ok := strings.CutPrefix(text, string(s))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 36, 64)
	return n, err == nil && string(s.appendID(n)) == text
}

func (i *id) String() string { return string(i.stem.appendID(i.n)) }

// MarshalBinary is called by go-redis each time it writes the command.
func (i *id) MarshalBinary() ([]byte, error) {
	i.copies.Add(1)
	return i.stem.appendID(i.n), nil
}

// copied reports whether more than one copy of its acquire was sent. One may then still arrive when the
// hold is over, and the id has to be remembered.
func (i *id) copied() bool { return i.copies.Load() > 1 }

// A departure is the id of a hold as the argument of its release.
type departure id

// MarshalBinary is called by go-redis each time it writes the command.
func (d *departure) MarshalBinary() ([]byte, error) {
	d.releases.Add(1)
	return d.stem.appendID(d.n), nil
}

// An idTable finds what an id stands for: a *request or a *lease.
type idTable struct {
	mu sync.Mutex
	m  map[uint64]any
}

func (t *idTable) set(id *id, v any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = make(map[uint64]any)
	}
	t.m[id.n] = v
}

func (t *idTable) remove(id *id) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id.n)
}

func (t *idTable) find(n uint64) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[n]
}

// leases returns all leases.
func (t *idTable) leases() []*lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*lease
	for _, v := range t.m {
		if l, ok := v.(*lease); ok {
			list = append(list, l)
		}
	}
	return list
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
