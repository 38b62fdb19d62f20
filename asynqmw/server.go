package asynqmw

import (
	"crypto/rand"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/parked"
)

// A server is the state that the tasks of one asynq server share.
type server struct {
	workers int
	idler   *idler
	waiting atomic.Int32 // workers that wait for a lock

	mu      sync.Mutex
	parkers map[parkerID]*parker
}

// A parkerID identifies a parker: Clients have keys of their own, also if they share a connection.
type parkerID struct {
	client <-chan struct{} // closed with the Client; the same for all kinds of its locks
	queues redis.UniversalClient
	shared bool
}

func newServer(concurrency int) *server {
	if concurrency < 1 {
		concurrency = runtime.NumCPU() // asynq's default
	}
	return &server{workers: concurrency, idler: &idler{end: make(chan struct{}, 1)}, parkers: make(map[parkerID]*parker)}
}

// parker returns the parker of the server for the locks of a Client and for queues.
func (s *server) parker(locks core.Backend, queues parked.Store, logger *slog.Logger) *parker {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := parkerID{locks.Closed, queues.Redis, locks.Shared}
	p := s.parkers[id]
	if p == nil {
		p = &parker{
			id: rand.Text(), server: s, locks: locks, store: queues, logger: logger,
			stats: make(map[parked.ListID]*keyStats), looks: make(map[string]*lookState),
		}
		s.parkers[id] = p
	}
	return p
}

// hasLists reports whether tasks are parked in a queue of the server.
func (s *server) hasLists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parkers {
		if p.hasLists() {
			return true
		}
	}
	return false
}

// maxWaits returns how many workers may wait for a lock at a time: half of them, but at least one.
func (s *server) maxWaits() int { return max(1, s.workers/2) }

// hasRoom reports whether another worker may wait for a lock.
func (s *server) hasRoom() bool { return int(s.waiting.Load()) < s.maxWaits() }

// beginWait reports whether another worker may wait, and counts it. If so, call endWait after the wait.
func (s *server) beginWait() bool {
	if int(s.waiting.Add(1)) <= s.maxWaits() {
		return true
	}
	s.waiting.Add(-1)
	return false
}

func (s *server) endWait() { s.waiting.Add(-1) }
