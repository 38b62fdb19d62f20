package env

import (
	"context"

	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

// An RWLocker is the result of rwlock.New or lockmw.NewLocal. A Config whose Wrap makes one tests its reading side if Mode is
// ReadMode; otherwise it tests the writing side, and both sides together.
type RWLocker interface {
	lockmw.RWLocker
	Downgrade(ctx context.Context, h *lockmw.Hold) error
}

// Sides are the Lockers of a process.
type Sides struct {
	lockmw.Locker               // the one under test
	reads         bool          // its holds are read locks
	Rival         lockmw.Locker // excluded by its holds: the writing side of a reader, otherwise itself
	RW            RWLocker      // nil if the lock does not have two sides
}

// sides returns the Sides of l, which c's Wrap has made.
func (c Config) sides(l lockmw.Locker) Sides {
	s := Sides{Locker: l, Rival: l}
	s.RW, _ = l.(RWLocker)
	if c.Mode == ReadMode {
		s.Locker, s.reads = s.RW.RLocker(), true
	}
	return s
}

// Reads tells the Recorder whether the holds are read locks.
func (s Sides) Reads() bool { return s.reads }

// Reader returns the reading side.
func (s Sides) Reader() lockmw.Locker { return recording.Reading(s.RW.RLocker()) }

// Side returns the reading or the writing side.
func (s Sides) Side(reads bool) lockmw.Locker {
	if reads {
		return s.Reader()
	}
	return s.RW
}

// Nth returns the Locker of contender n, so that some contenders exclude each other.
func (s Sides) Nth(n int) lockmw.Locker {
	if n%2 == 1 {
		return s.Rival
	}
	return s
}

// rivalOf returns the Locker that l's holds exclude.
func rivalOf(l lockmw.Locker) lockmw.Locker {
	if c, ok := l.(*Client); ok {
		return c.Rival
	}
	return l
}

// twoSided reports whether c tests both sides of an RWLocker together.
func (c Config) twoSided() bool { return c.Mode == "write" || c.Server == nil && c.Mode != ReadMode }

// RivalMode returns the mode that observers see for the rivals of c's Locker. It also names their side.
func (c Config) RivalMode() string {
	switch {
	case c.Mode != ReadMode:
		return c.Mode
	case c.Server == nil:
		return ClientMode
	}
	return "write"
}
