package bridge

import (
	"fmt"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// An OldKeyError is in the chain of each error that is about the old key. An error without it is about the lock of lockmw.
type OldKeyError struct {
	Library string // "redsync", "redislock", "rueidislock", "SET NX" or "Redisson"
	Key     string // the old key; of several keys the first one
}

// Error returns the library and the key.
func (e *OldKeyError) Error() string { return fmt.Sprintf("old key %q of %s", e.Key, e.Library) }

// busy returns the error of a call that has the lock of lockmw, and finds the old key taken.
func (e *OldKeyError) busy() error { return fmt.Errorf("%w: the %w is taken", core.ErrBusy, e) }

// lost returns the loss of a hold whose old key cannot be renewed.
func (e *OldKeyError) lost(why string) error {
	return fmt.Errorf("%w: the %w %s", core.ErrLost, e, why)
}

// failed adds the old key to the error of a command, as callers receive it.
func (e *OldKeyError) failed(err error) error {
	return fmt.Errorf("%w (%w)", transport.Failure(err), e)
}
