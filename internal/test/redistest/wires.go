package redistest

import "github.com/lockmw/go/internal/wire"

// A Wire carries a client's connections, so that a test can disturb them:
//
//	wire := s.NewWire()
//	rdb := s.NewClient(t, wire.Use)
type (
	Wire    = wire.Wire
	Fault   = wire.Fault
	Command = wire.Command
)

// NewWire returns an undisturbed Wire to s.
func (s *Server) NewWire() *Wire { return wire.New(s.dial) }

// NewWire returns an undisturbed Wire to all of them.
func (s *several) NewWire() *Wire { return wire.New(dialAddr) }
