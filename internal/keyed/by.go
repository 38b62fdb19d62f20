package keyed

import (
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/option"
)

// A Pattern makes the keys of one kind. A Part is a function that finds one part of the key.
type Pattern[Part any] struct {
	kind  string
	parts []Part
}

// NewPattern checks the arguments of a By when By is called, not when the first key is needed. It panics if the kind is empty
// or so long that no key fits, if there is no part, or if a part is nil. The text of the panic begins with the name of the
// calling package; calls is the plural noun for the calls that the package locks.
func NewPattern[Part any](pkg, calls, kind string, parts []Part) Pattern[Part] {
	if kind == "" {
		panic(fmt.Sprintf("%s: By: the kind is empty", pkg))
	}
	if len(parts) == 0 {
		panic(fmt.Sprintf("%s: By(%q): no parts: all %s would share one lock, for which there is Const", pkg, kind, calls))
	}
	for i, part := range parts {
		if option.IsNil(part) {
			panic(fmt.Sprintf("%s: By(%q): part %d is nil", pkg, kind, i+1))
		}
	}
	if shortest := Join(kind, slices.Repeat([]string{"x"}, len(parts))...); len(shortest) > MaxLen {
		panic(fmt.Sprintf("%s: By(%.20q…): the kind is so long that every key has more than %d bytes", pkg, kind, MaxLen))
	}
	return Pattern[Part]{kind, slices.Clone(parts)}
}

// A PartError reports which part of a key failed or is empty.
type PartError struct {
	Kind   string // of the key
	Number int    // of the part, from 1
	Err    error
}

func (e *PartError) Error() string {
	return fmt.Sprintf("part %d of key %q: %v", e.Number, e.Kind, e.Err)
}

func (e *PartError) Unwrap() error { return e.Err }

// Key makes one key. value calls a part and returns its result. The error is a *PartError.
func (p Pattern[Part]) Key(value func(Part) (string, error)) (string, error) {
	values := make([]string, len(p.parts))
	for i, part := range p.parts {
		v, err := value(part)
		if err == nil && v == "" {
			err = ErrEmpty
		}
		if err != nil {
			return "", &PartError{p.kind, i + 1, err}
		}
		values[i] = v
	}
	return Join(p.kind, values...), nil
}
