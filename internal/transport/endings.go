package transport

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// Endings counts releases and cancellations, for which Close waits. Each is counted from before its first try until after its
// last, so that none is overlooked between two tries. Safe for concurrent use.
type Endings struct {
	begun, ended atomic.Int64
	holds        atomic.Int64          // holds that may still be on the server; a request without an answer is not counted
	lastErr      atomic.Pointer[error] // of a failed try
}

// Begin counts an ending that begins.
func (n *Endings) Begin(isHold bool) {
	n.begun.Add(1)
	if isHold {
		n.holds.Add(1)
	}
}

// Done records that an ending is complete: the server has confirmed it, or another one replaces it.
func (n *Endings) Done(isHold bool) {
	if n.lastErr.Load() != nil {
		n.lastErr.Store(nil)
	}
	if isHold {
		n.Expired()
	}
	n.ended.Add(1)
}

// Failed records the error of a try.
func (n *Endings) Failed(err error) { n.lastErr.Store(&err) }

// GiveUp records that there are no more tries. The server keeps the hold until its lease expires.
func (n *Endings) GiveUp() { n.ended.Add(1) }

// Expired records that a hold is no longer on the server.
func (n *Endings) Expired() { n.holds.Add(-1) }

// isDone reports whether all that has begun has ended.
func (n *Endings) isDone() bool {
	ended := n.ended.Load() // read first, so that it does not include one that begins later
	return n.begun.Load() == ended
}

// Unreleased is the number of holds that a Close leaves on the server, and the last error.
type Unreleased struct {
	Holds int
	Err   error
}

func (n *Endings) left() Unreleased {
	left := Unreleased{Holds: int(n.holds.Load()), Err: core.ErrNoAnswer}
	if err := n.lastErr.Load(); err != nil {
		left.Err = Failure(*err)
	}
	return left
}

// Report logs the holds that are left, and returns the error of the Close; nil if none are left.
func (l Unreleased) Report(log *slog.Logger) error {
	if l.Holds == 0 {
		return nil
	}
	log.Warn("lockmw: Close could not release all locks; the rest expire with their leases",
		"locks", l.Holds, "error", l.Err)
	return fmt.Errorf("locks not released: %d, held until their leases expire: %w", l.Holds, l.Err)
}

const (
	// EndingPatience is how long Await waits for the server to confirm another ending.
	EndingPatience = 2 * time.Second
	// endingPause separates two looks of Await.
	endingPause = 50 * time.Millisecond
)

// Await returns when the server has confirmed all endings, or has confirmed none for a while. It returns what is left on the
// server.
func (n *Endings) Await(s *Sender) Unreleased {
	ended, since := n.ended.Load(), clock.Now()
	for s.ctx.Err() == nil {
		idle := s.WaitIdle(endingPause) // a call in flight may begin an ending
		if idle && n.isDone() {
			break
		}
		now := clock.Now()
		if n := n.ended.Load(); n != ended {
			ended, since = n, now
		}
		if now.Sub(since) >= EndingPatience {
			break
		}
		if idle {
			time.Sleep(endingPause)
		}
	}
	return n.left()
}
