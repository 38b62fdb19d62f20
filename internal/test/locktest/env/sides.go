package env

import (
	"context"

	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

// An RWLocker is what rwlock.New and lockmw.NewLocal return. A Config whose Wrap makes one tests its
// reading side if its Mode is ReadMode, its writing side otherwise, and both together.
type RWLocker interface {
	lockmw.RWLocker
	Downgrade(ctx context.Context, h *lockmw.Hold) error
}

// Sides are the ways in which a process takes locks.
type Sides struct {
	lockmw.Locker               // the one that the Config tests
	reads         bool          // whose holds read
	Rival         lockmw.Locker // whom its holds exclude: the writing side of one that reads, else itself
	RW            RWLocker      // nil if there are not two sides
}

// sides are those of l, which c's Wrap has made.
func (c Config) sides(l lockmw.Locker) Sides {
	s := Sides{Locker: l, Rival: l}
	s.RW, _ = l.(RWLocker)
	if c.Mode == ReadMode {
		s.Locker, s.reads = s.RW.RLocker(), true
	}
	return s
}

// Reads tells the Recorder that the holds read.
func (s Sides) Reads() bool { return s.reads }

// Reader is the side that reads.
func (s Sides) Reader() lockmw.Locker { return judge.Reading(s.RW.RLocker()) }

// Side is the one that reads, or the one that writes.
func (s Sides) Side(reads bool) lockmw.Locker {
	if reads {
		return s.Reader()
	}
	return s.RW
}

// Nth is what the nth of several contenders uses, so that some of them exclude each other.
func (s Sides) Nth(n int) lockmw.Locker {
	if n%2 == 1 {
		return s.Rival
	}
	return s
}

// rivalOf is whom the holds of l exclude.
func rivalOf(l lockmw.Locker) lockmw.Locker {
	if c, ok := l.(*Client); ok {
		return c.Rival
	}
	return l
}

// twoSided reports whether c tests both sides of an RWLocker together.
func (c Config) twoSided() bool { return c.Mode == "write" || c.Server == nil && c.Mode != ReadMode }

// RivalMode is what observers are told of those whom c's holds exclude, and the side that they use.
func (c Config) RivalMode() string {
	switch {
	case c.Mode != ReadMode:
		return c.Mode
	case c.Server == nil:
		return ClientMode
	}
	return "write"
}
