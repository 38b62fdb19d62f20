package redistest

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/wire"
)

// A Fault is a disturbance of a Wire, and a Command was sent through it.
type (
	Fault   = wire.Fault
	Command = wire.Command
)

// A Wire carries a client's connections, so that a test can disturb them and see their commands:
//
//	wire := s.NewWire()
//	rdb := s.NewClient(t, wire.Use)
type Wire struct {
	*wire.Wire

	mu   sync.Mutex
	sent []Command
}

func newWire(dial func(ctx context.Context, addr string) (net.Conn, error)) *Wire {
	return &Wire{Wire: wire.New(dial)}
}

// NewWire returns an undisturbed Wire to s.
func (s *Server) NewWire() *Wire { return newWire(s.dial) }

// NewWire returns an undisturbed Wire to all of them.
func (s *several) NewWire() *Wire { return newWire(dialAddr) }

// Use makes a client's connections run through w.
func (w *Wire) Use(opts *redis.Options) { opts.Dialer = w.Dial }

// Record begins to record every command, and discards earlier records.
func (w *Wire) Record() {
	w.mu.Lock()
	w.sent = nil
	w.mu.Unlock()
	w.Watch(func(c Command) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent = append(w.sent, c)
	})
}

// Sent returns the commands since Record, in the order in which they were written.
func (w *Wire) Sent() []Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// Rerun sends a command again, through rdb.
func Rerun(ctx context.Context, rdb redis.UniversalClient, c Command) (any, error) {
	args := make([]any, len(c))
	for i, word := range c {
		args[i] = word
	}
	return rdb.Do(ctx, args...).Result()
}
