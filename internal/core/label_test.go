package core_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
)

func TestALabelOfAnyTextIsAGoodOne(t *testing.T) {
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
