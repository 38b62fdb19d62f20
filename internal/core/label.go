package core

import (
	"fmt"
	"strings"
)

// MaxLabel is the longest label of a hold in bytes.
const MaxLabel = 100

// CheckLabel returns an error that wraps ErrInvalidOption unless label can be stored with a lock, whose fields are separated by
// spaces.
func CheckLabel(label string) error {
	if i := strings.IndexFunc(label, isUnfit); i >= 0 {
		return fmt.Errorf("%w: label has %.1q at byte %d, must be printable ASCII without spaces", ErrInvalidOption, label[i:], i+1)
	}
	if len(label) > MaxLabel {
		return fmt.Errorf("%w: label has %d bytes, more than %d", ErrInvalidOption, len(label), MaxLabel)
	}
	return nil
}

// Label turns any text into a label: it truncates long text, and replaces each byte that is not printable ASCII, and each space,
// by '_'.
func Label(text string) string {
	text = text[:min(len(text), MaxLabel)]
	if !strings.ContainsFunc(text, isUnfit) {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if isUnfit(rune(c)) {
			b[i] = '_'
		}
	}
	return string(b)
}

func isUnfit(r rune) bool { return r <= ' ' || r > '~' }
