package option

import "reflect"

// IsNil reports whether value is nil, a nil function or map, or an interface around a nil pointer: what
// a constructor returned whose error was ignored.
func IsNil(value any) bool {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map:
		return v.IsNil()
	}
	return false
}

// NotNil panics with the text if value is nil in the sense of IsNil.
func NotNil(value any, text string) {
	if IsNil(value) {
		panic(text)
	}
}
