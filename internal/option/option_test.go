package option_test

import (
	"io"
	"testing"

	"github.com/lockmw/go/internal/option"
)

// A table has its methods on a map, as http.Header has.
type table map[string]int

func (table) Close() error { return nil }

type file struct{}

func (*file) Close() error { return nil }

func TestIsNil(t *testing.T) {
	var none io.Closer
	for name, tt := range map[string]struct {
		value any
		want  bool
	}{
		"nothing":              {nil, true},
		"a nil interface":      {none, true},
		"a nil pointer":        {(*file)(nil), true},
		"a nil pointer inside": {io.Closer((*file)(nil)), true},
		"a nil function":       {(func())(nil), true},
		"a nil map":            {io.Closer(table(nil)), true},
		"a pointer":            {&file{}, false},
		"a function":           {func() {}, false},
		"a map":                {table{}, false},
		"a struct":             {file{}, false},
		"a nil slice":          {[]int(nil), false},
	} {
		if got := option.IsNil(tt.value); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
