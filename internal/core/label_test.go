package core_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
)

// A valid length is not mentioned.
func TestABadLabelIsRefusedWithTheReason(t *testing.T) {
	for text, want := range map[string]string{
		"two words":                    "lockmw: invalid option: label has \" \" at byte 4, must be printable ASCII without spaces",
		"é":                            "lockmw: invalid option: label has \"é\" at byte 1, must be printable ASCII without spaces",
		"ab\x00":                       `lockmw: invalid option: label has "\x00" at byte 3, must be printable ASCII without spaces`,
		"a\xff":                        `lockmw: invalid option: label has "\xff" at byte 2, must be printable ASCII without spaces`,
		strings.Repeat("x", 200) + " ": "lockmw: invalid option: label has \" \" at byte 201, must be printable ASCII without spaces",
		strings.Repeat("x", 101):       "lockmw: invalid option: label has 101 bytes, more than 100",
	} {
		if err := core.CheckLabel(text); err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func TestALabelOfAnyTextIsValid(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"web-1/aB3-000042":             "web-1/aB3-000042",
		"a;label=b":                    "a;label=b",
		"two words\r\nX-Evil: \x00":    "two_words__X-Evil:__",
		"é":                            "__",
		strings.Repeat("x", 99) + "é…": strings.Repeat("x", 99) + "_",
	} {
		if got := core.Label(text); got != want || core.CheckLabel(got) != nil {
			t.Errorf("%q makes %q, want %q", text, got, want)
		}
		if err := core.CheckLabel(text); (err == nil) != (text == want) || err != nil && !errors.Is(err, core.ErrInvalidOption) {
			t.Errorf("%q is checked: %v", text, err)
		}
	}
}
