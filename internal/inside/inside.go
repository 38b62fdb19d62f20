// Package inside lets the packages of this module see what the Lockers of the others are made of. Other modules cannot: a Mark
// has no exported name.
package inside

// A Mark, embedded in a Locker under a name that is not exported, says what takes its locks.
type Mark struct{ whole, part any }

// NewMark returns the Mark of a Locker whose locks are taken by part.
func NewMark(whole, part any) Mark { return Mark{whole, part} }

func (m *Mark) mark() *Mark { return m }

// PartOf returns what takes the locks of a Locker, or of the one that it embeds; nil if that is not known.
func PartOf(locker any) any {
	if m, ok := locker.(interface{ mark() *Mark }); ok {
		return m.mark().part
	}
	return nil
}

// IsEmbedded reports whether locker embeds a marked Locker, so that it may have a Lock of its own.
func IsEmbedded(locker any) bool {
	m, ok := locker.(interface{ mark() *Mark })
	return ok && m.mark().whole != locker
}
