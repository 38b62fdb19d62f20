package keyed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lockmw/go/internal/core"
)

// Decode returns the JSON of a T, of which a part of a key is made. what names it in errors, such as "payload". The error wraps
// core.ErrInvalidKey: what is invalid now does not become valid later.
func Decode[T any](what string, encoded []byte) (v T, err error) {
	if !utf8.Valid(encoded) { // encoding/json replaces invalid UTF-8, so different values could make one key
		return v, fmt.Errorf("%w: %s: not UTF-8", core.ErrInvalidKey, what)
	}
	if err := json.Unmarshal(encoded, &v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			wrong.Value, _, _ = strings.Cut(wrong.Value, " ") // drop the digits of a number, which may be many
		}
		return v, fmt.Errorf("%w: %s: not JSON of %T: %w", core.ErrInvalidKey, what, v, err)
	}
	if strings.TrimSpace(string(encoded)) == "null" {
		return v, fmt.Errorf("%w: %s: null", core.ErrInvalidKey, what)
	}
	return v, nil
}
