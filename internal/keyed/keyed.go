// Package keyed makes the keys of locks from a kind and the parts that identify one thing of this kind, for lockmw.Key and the
// By of each package.
package keyed

import (
	"fmt"
	"strings"

	"github.com/lockmw/go/internal/core"
)

// MaxLen is the greatest length of a key in bytes.
const MaxLen = 1024

// ErrEmpty is the error of an empty key, and the reason for refusing an empty part.
var ErrEmpty = fmt.Errorf("%w: it is empty", core.ErrInvalidKey)

// Join joins the kind and the parts with ':'. Each is escaped, so different parts never make the same key. If the kind or a
// part is empty, the key is empty.
func Join(kind string, parts ...string) string {
	if kind == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(escape.Replace(kind))
	for _, part := range parts {
		if part == "" {
			return ""
		}
		b.WriteByte(':')
		b.WriteString(escape.Replace(part))
	}
	return b.String()
}

var escape = strings.NewReplacer("%", "%25", ":", "%3A")

// Check returns an error that wraps core.ErrInvalidKey if key is not a valid key.
func Check(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w (a part of it was missing?)", ErrEmpty)
	case len(key) > MaxLen:
		return fmt.Errorf("%w: %d bytes, more than %d", core.ErrInvalidKey, len(key), MaxLen)
	}
	return nil
}

// Const returns the key of Join for a Const of the package pkg. It panics if that is not a valid key.
func Const(pkg, kind string, parts []string) string {
	key := Join(kind, parts...)
	if err := Check(key); err != nil {
		panic(fmt.Sprintf("%s: Const(%.20q, …): %v", pkg, kind, err))
	}
	return key
}
