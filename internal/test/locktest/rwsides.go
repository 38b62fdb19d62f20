package locktest

import (
	"context"

	"github.com/lockmw/go/lockmw"
)

// An RWLocker is what rwlock.New and lockmw.NewLocal return. A Config whose Wrap makes one tests its
// reading side if its Mode is readMode, its writing side otherwise, and both together.
type RWLocker interface {
	lockmw.RWLocker
	Downgrade(ctx context.Context, h *lockmw.Hold) error
}

const readMode = "read"

// Sides are the ways in which a process takes locks.
type sides struct {
	lockmw.Locker               // the one that the Config tests
	reads         bool          // whose holds read
	rival         lockmw.Locker // whom its holds exclude: the writing side of one that reads, else itself
	rw            RWLocker      // nil if there are not two sides
}

// sides are those of l, which c's Wrap has made.
func (c Config) sides(l lockmw.Locker) sides {
	s := sides{Locker: l, rival: l}
	s.rw, _ = l.(RWLocker)
	if c.Mode == readMode {
		s.Locker, s.reads = s.rw.RLocker(), true
	}
	return s
}

// Reads tells the Recorder that the holds read.
func (s sides) Reads() bool { return s.reads }

// reader is the side that reads.
func (s sides) reader() lockmw.Locker { return Reading(s.rw.RLocker()) }

// side is the one that reads, or the one that writes.
func (s sides) side(reads bool) lockmw.Locker {
	if reads {
		return s.reader()
	}
	return s.rw
}

// nth is what the nth of several contenders uses, so that some of them exclude each other.
func (s sides) nth(n int) lockmw.Locker {
	if n%2 == 1 {
		return s.rival
	}
	return s
}

// rivalOf is whom the holds of l exclude.
func rivalOf(l lockmw.Locker) lockmw.Locker {
	if c, ok := l.(*client); ok {
		return c.rival
	}
	return l
}

// twoSided reports whether c tests both sides of an RWLocker together.
func (c Config) twoSided() bool { return c.Mode == "write" || c.Server == nil && c.Mode != readMode }

// rivalMode is what observers are told of those whom c's holds exclude, and the side that they use.
func (c Config) rivalMode() string {
	switch {
	case c.Mode != readMode:
		return c.Mode
	case c.Server == nil:
		return clientMode
	}
	return "write"
}
