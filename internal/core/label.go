package core

import (
	"fmt"
	"strings"
)

// MaxLabel is the longest label of a hold in bytes.
const MaxLabel = 100

// CheckLabel returns an error that wraps ErrInvalidOption unless label can be stored with a lock: its fields there
// are separated by spaces.
func CheckLabel(label string) error {
	if i := strings.IndexFunc(label, isUnfit); i >= 0 {
		return fmt.Errorf("%w: a label with %.1q at byte %d, must be printable ASCII without spaces", ErrInvalidOption, label[i:], i+1)
	}
	if len(label) > MaxLabel {
		return fmt.Errorf("%w: a label of %d bytes, more than %d", ErrInvalidOption, len(label), MaxLabel)
	}
	return nil
}

// Label makes a label of text that comes from elsewhere: it cuts off what is too long, and puts '_' for what is not
// printable ASCII.
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
