package locklog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// The phases of an attempt.
const (
	waiting int32 = iota
	holding
	over
)

// An attempt is one call for a lock and the hold it leads to. It is also the context in which they run,
// which spares an allocation. The fields that are not atomic are written while it waits, by one
// goroutine, and read by others only when it holds.
type attempt struct {
	context.Context

	reporter *reporter
	started  time.Time
	seen     lockmw.Contention // by those who wait
	waited   time.Duration
	token    int64

	phase   atomic.Int32
	failing atomic.Bool // the last renewal has failed
	told    atomic.Bool // that it is still held
}

// attemptIn returns the innermost attempt in ctx that r observes, nil if there is none. Other
// reporters' do not count, so that several observers can be mounted.
func (r *reporter) attemptIn(ctx context.Context) *attempt {
	s, _ := ctx.Value(r).(*attempt)
	return s
}

// Value implements context.Context.
func (s *attempt) Value(key any) any {
	if r, ok := key.(*reporter); ok && r == s.reporter {
		return s
	}
	return s.Context.Value(key)
}

// String keeps those who print contexts from reading the fields while they change.
func (s *attempt) String() string { return "locklog.attempt" }

func (s *attempt) is(phase int32) bool { return s != nil && s.phase.Load() == phase }

// ends ends the hold and reports whether it was the first to do so: a loss and the release may be told
// of at the same time.
func (s *attempt) ends() bool { return s != nil && s.phase.CompareAndSwap(holding, over) }

// held is how long the lock has been held by now.
func (s *attempt) held() time.Duration { return time.Since(s.started) - s.waited }
