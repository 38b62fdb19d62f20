package script

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// An ID names one acquisition: its request, its ticket and its hold. It consists of the stem of its engine and a number. As an
// argument of a command it counts how often the command was written to a connection. go-redis repeats a command whose reply was
// lost, and a copy that was delayed may still arrive (rules 1 and 2 of docs/protocol.md).
type ID struct {
	n        uint64
	copies   atomic.Int32
	releases atomic.Int32 // how often the release of its hold was written
	text     []byte       // the id as text
	room     [40]byte     // has room for most texts
}

// An IDStem is the beginning of all ids of an engine.
type IDStem string

// New returns the id with number n.
func (s IDStem) New(n uint64) *ID {
	i := &ID{n: n}
	i.text = s.appendID(i.room[:0], n)
	return i
}

// Number returns the number of an id with this stem; false if text is not such an id.
func (s IDStem) Number(text string) (n uint64, ok bool) {
	rest, ok := strings.CutPrefix(text, string(s))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 36, 64)
	return n, err == nil && string(s.appendID(nil, n)) == text
}

func (s IDStem) appendID(b []byte, n uint64) []byte {
	return strconv.AppendUint(append(b, s...), n, 36)
}

// String returns the id as it is in Redis.
func (i *ID) String() string { return string(i.text) }

// Number returns the number of the id.
func (i *ID) Number() uint64 { return i.n }

// MarshalBinary implements encoding.BinaryMarshaler. go-redis calls it each time it writes an acquire.
func (i *ID) MarshalBinary() ([]byte, error) {
	i.copies.Add(1)
	return i.text, nil
}

// Copies returns how often the acquire of the id was written.
func (i *ID) Copies() int { return int(i.copies.Load()) }

// Copied reports whether more than one copy of its acquire was written. A copy may arrive after the hold has ended, so the id
// then needs a done mark.
func (i *ID) Copied() bool { return i.Copies() > 1 }

// Releases returns how often the release of its hold was written.
func (i *ID) Releases() int { return int(i.releases.Load()) }

// A releaseID is the id of a hold as an argument of its release.
type releaseID ID

// MarshalBinary implements encoding.BinaryMarshaler. go-redis calls it each time it writes a release.
func (d *releaseID) MarshalBinary() ([]byte, error) {
	d.releases.Add(1)
	return d.text, nil
}
