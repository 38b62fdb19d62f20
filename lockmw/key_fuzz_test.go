package lockmw_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The parts of a key can be read back from it, so that different parts never make the same key; and
// a key with a missing part is refused.
func FuzzKey(f *testing.F) {
	f.Add("user", "42", "", uint8(1))
	f.Add("user", "", "", uint8(1))
	f.Add("", "42", "", uint8(1))
	f.Add("a:b", "c", "d", uint8(2))
	f.Add("a", "b:c", "d", uint8(2))
	f.Add("a%3Ab", "c%", "%253A", uint8(2))
	f.Add("{a}", "\x00\xff\r\n", "日本:", uint8(2))
	f.Add(strings.Repeat(":", 1024), "x", "y", uint8(0))
	f.Add(strings.Repeat("k", 1022), "x", "y", uint8(1))
	f.Add(strings.Repeat("k", 1023), "x", "y", uint8(1))
	f.Fuzz(func(t *testing.T, kind, part1, part2 string, n uint8) {
		parts := []string{part1, part2}[:n%3]
		all := append([]string{kind}, parts...)
		key := lockmw.Key(kind, parts...)
		if slices.Contains(all, "") != (key == "") {
			t.Fatalf("Key(%q) is %q", all, key)
		}
		if key != "" && !slices.Equal(partsOf(t, key), all) {
			t.Errorf("Key(%q) is %q, which reads %q", all, key, partsOf(t, key))
		}
		if shortest := lockmw.Key(kind, slices.Repeat([]string{"x"}, len(parts))...); kind != "" && len(parts) > 0 && len(shortest) <= 1024 {
			var functions []func(int) string
			for _, part := range parts {
				functions = append(functions, func(int) string { return part })
			}
			by, err := lockmw.By(kind, functions...)(t.Context(), 0)
			if by != key || (err != nil) != (key == "") || err != nil && !errors.Is(err, lockmw.ErrInvalidKey) {
				t.Errorf("By makes %q of %q, Key %q; %v", by, all, key, err)
			}
		}
		_, hold, err := lockmw.NewLocal().Lock(t.Context(), key)
		switch {
		case key == "" || len(key) > 1024:
			if !errors.Is(err, lockmw.ErrInvalidKey) {
				t.Errorf("a key of %d bytes: %v", len(key), err)
			}
		case err != nil:
			t.Errorf("%q: %v", key, err)
		default:
			usertest.Unlock(t, hold)
		}
	})
}

// partsOf reads a key as its documentation says that it is made.
func partsOf(t *testing.T, key string) []string {
	t.Helper()
	parts := strings.Split(key, ":")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			t.Fatalf("part %d of %q: %v", i, key, err)
		}
		parts[i] = plain
	}
	return parts
}
