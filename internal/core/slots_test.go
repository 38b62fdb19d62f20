package core_test

import (
	"slices"
	"testing"

	"github.com/lockmw/go/internal/core"
)

func TestSlotsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-2,5": {0, 1, 2, 5}, "3,7-8": {3, 7, 8}, "998-999": {998, 999}} {
		got, err := core.ParseSlots(text)
		if err != nil || !slices.Equal(got, want) || core.FormatSlots(got) != text {
			t.Errorf("%q is %v, %v, and %q again", text, got, err, core.FormatSlots(got))
		}
	}
	if got, err := core.ParseSlots("5,0-2"); err != nil || !slices.Equal(got, []int{0, 1, 2, 5}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "-", "1-0", "a", "0-1000", "1000", "-1", "0-999,0-999", "1,,2", "1-2-3", " 1"} {
		if got, err := core.ParseSlots(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
