package option

import "reflect"

// IsNil reports whether value is nil, a nil function, or an interface around a nil pointer: what a
// constructor returned whose error nobody looked at.
func IsNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
