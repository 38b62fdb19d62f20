package lockmw

import "github.com/lockmw/go/internal/deadlock"

// OverLocks returns a Locker over an implementation of locks.
var OverLocks = overLocks

// AsOwnProcess makes deadlock detection treat a Client as one of another process.
func AsOwnProcess() ClientOption {
	return clientOption{apply: func(s *settings) error {
		s.engine.Waits = deadlock.NewRegistry()
		return nil
	}}
}
