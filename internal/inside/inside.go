// Package inside gives the packages of this module access to the parts of each other's Lockers. Other modules have no access,
// because a Mark has no exported method.
package inside

// A Mark records which part of a Locker takes its locks. It is embedded in the Locker, in an unexported field.
type Mark struct{ whole, part any }

// NewMark returns the Mark of the Locker whole, whose locks are taken by part.
func NewMark(whole, part any) Mark { return Mark{whole, part} }

func (m *Mark) mark() *Mark { return m }

// PartOf returns the part that takes the locks of a Locker, or of the Locker that it embeds; nil if it has no Mark.
func PartOf(locker any) any {
	if m, ok := locker.(interface{ mark() *Mark }); ok {
		return m.mark().part
	}
	return nil
}

// IsEmbedded reports whether locker embeds a marked Locker, so it may have its own Lock method.
func IsEmbedded(locker any) bool {
	m, ok := locker.(interface{ mark() *Mark })
	return ok && m.mark().whole != locker
}
