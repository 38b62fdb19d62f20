package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestMistakesPanicWhereAKeyFunctionIsMade(t *testing.T) {
	part := func(string) string { return "42" }
	for name, tt := range map[string]struct {
		kind  string
		parts []func(string) string
		says  string
	}{
		"no kind":                    {"", []func(string) string{part}, "kind is empty"},
		"no parts":                   {"user", nil, `By("user"): no parts`},
		"a nil part":                 {"user", []func(string) string{part, nil}, "part 2 is nil"},
		"no room for a part":         {strings.Repeat("k", 1023), []func(string) string{part}, "1024 bytes"},
		"no room for the second one": {strings.Repeat("k", 1021), []func(string) string{part, part}, "1024 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			usertest.WantPanic(t, "lockmw: ", tt.says, func() { lockmw.By(tt.kind, tt.parts...) })
		})
	}
}

func TestAnEmptyPartIsNamedByItsNumber(t *testing.T) {
	byOrder := lockmw.By("order", func(s string) string { return "7" }, func(s string) string { return s })
	never := func(context.Context, string) error { t.Error("the function was called"); return nil }
	err := lockmw.WithLock(lockmw.NewLocal(), byOrder, never)(t.Context(), "")
	if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Op != "key" || !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(err.Error(), `part 2 of key "order"`) {
		t.Errorf("%q does not name the part", err)
	}
}
