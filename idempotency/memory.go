package idempotency

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/lockmw/go/internal/inproc"
)

// A memory is the Store of a Local: it keeps records in this process.
type memory struct {
	mu      sync.Mutex
	records map[string]*memoryRecord
	next    time.Time // when expired records are removed
}

type memoryRecord struct {
	Record
	void    map[string]bool // runs
	expires time.Time
}

// memories has the memory of each Local, by a weak pointer to its locks: all Runners of a Local share their records.
var memories sync.Map

func memoryOf(locks *inproc.Locks) *memory {
	key := weak.Make(locks)
	m, found := memories.LoadOrStore(key, &memory{records: make(map[string]*memoryRecord)})
	if !found {
		runtime.AddCleanup(locks, func(key weak.Pointer[inproc.Locks]) { memories.Delete(key) }, key)
	}
	return m.(*memory)
}

// sweepEvery is how often expired records are removed.
const sweepEvery = time.Minute

// voidTTL is how long a record without a run is kept because a Begin of a void run might still arrive.
const voidTTL = time.Minute

// at returns the record of a key, or an empty one that is not stored.
func (m *memory) at(key string) *memoryRecord {
	now := time.Now()
	if now.After(m.next) {
		for k, r := range m.records {
			if !now.Before(r.expires) {
				delete(m.records, k)
			}
		}
		m.next = now.Add(sweepEvery)
	}
	if r := m.records[key]; r != nil && now.Before(r.expires) {
		return r
	}
	return &memoryRecord{}
}

func (m *memory) put(key string, r *memoryRecord, ttl time.Duration) {
	if ttl > 0 {
		r.expires = time.Now().Add(ttl)
	}
	m.records[key] = r
}

// Look implements Store.
func (m *memory) Look(_ context.Context, key string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(key).Record, nil
}

// Begin implements Store.
func (m *memory) Begin(_ context.Context, c Claim) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.at(c.Key)
	next, begun, err := r.Next(c, r.void[c.Run])
	if begun {
		next.Began = time.Now()
		r.Record = next
		m.put(c.Key, r, c.TTL)
	}
	return r.Record, err
}

// End implements Store.
func (m *memory) End(_ context.Context, e End) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.at(e.Key)
	if r.Run != e.Run || r.State != Open {
		return r.Run == e.Run && r.State == Done && e.Outcome == Keep && bytes.Equal(r.Answer, e.Answer), nil
	}
	switch e.Outcome {
	case Keep:
		r.State, r.Answer = Done, e.Answer
		m.put(e.Key, r, e.TTL)
	case Forget:
		r.State, r.Fingerprint, r.Run = None, Fingerprint{}, ""
	case Leave:
		r.Returned = true
	}
	return true, nil
}

// Void implements Store.
func (m *memory) Void(_ context.Context, key, run string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.at(key)
	r.Record = r.Record.Void(run)
	if r.void == nil {
		r.void = make(map[string]bool)
	}
	r.void[run] = true
	ttl := time.Duration(0)
	if time.Now().Add(voidTTL).After(r.expires) {
		ttl = voidTTL
	}
	m.put(key, r, ttl)
	return nil
}
