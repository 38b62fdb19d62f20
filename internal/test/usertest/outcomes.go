package usertest

import (
	"context"
	"sync"

	"github.com/lockmw/go/lockmw"
)

// Outcomes records how calls of package idempotency end.
type Outcomes struct {
	mu    sync.Mutex
	calls []string
}

// Observer returns the observer that records them.
func (o *Outcomes) Observer() *lockmw.Observer {
	return &lockmw.Observer{Idempotent: func(_ context.Context, _ lockmw.Attempt, call lockmw.IdempotentCall) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.calls = append(o.calls, call.Outcome)
	}}
}

// Take returns the outcomes of the calls that have ended since it was last called, in their order.
func (o *Outcomes) Take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}
