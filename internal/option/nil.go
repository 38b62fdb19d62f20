package option

import "reflect"

// IsNil reports whether v is nil, or an interface around a nil pointer: what a constructor returned
// whose error nobody looked at.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	p := reflect.ValueOf(v)
	return p.Kind() == reflect.Pointer && p.IsNil()
}
