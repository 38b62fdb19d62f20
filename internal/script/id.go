package script

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// An ID names one request for a lock, and the ticket and the hold that come of it: the stem of its
// engine and a number. As an argument of a command it counts how often the command was written to a
// connection: go-redis repeats a command whose reply was lost, and a copy that got stuck on the way may
// still arrive (rules 1 and 2 of docs/protocol.md).
type ID struct {
	n        uint64
	copies   atomic.Int32
	releases atomic.Int32 // how often the release of its hold was written
	text     []byte       // as Redis has it
	room     [40]byte     // for the text of most
}

// An IDStem is what the ids of an engine begin with.
type IDStem string

// New returns the id with number n.
func (s IDStem) New(n uint64) *ID {
	i := &ID{n: n}
	i.text = s.appendID(i.room[:0], n)
	return i
}

// Number returns the number of an id with this stem; false if text is none.
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

// String returns the id as Redis has it.
func (i *ID) String() string { return string(i.text) }

// Number returns its number.
func (i *ID) Number() uint64 { return i.n }

// MarshalBinary is called by go-redis each time it writes an acquire.
func (i *ID) MarshalBinary() ([]byte, error) {
	i.copies.Add(1)
	return i.text, nil
}

// Copies returns how often its acquire was sent.
func (i *ID) Copies() int { return int(i.copies.Load()) }

// Copied reports whether more than one copy of its acquire was sent. One may then still arrive when the
// hold is over, and the id has to be remembered.
func (i *ID) Copied() bool { return i.Copies() > 1 }

// Releases returns how often its release was sent.
func (i *ID) Releases() int { return int(i.releases.Load()) }

// A releaseID is the id of a hold as the argument of its release.
type releaseID ID

// MarshalBinary is called by go-redis each time it writes a release.
func (d *releaseID) MarshalBinary() ([]byte, error) {
	d.releases.Add(1)
	return d.text, nil
}
