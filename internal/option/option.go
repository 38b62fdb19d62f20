// Package option holds the marks by which the compiler decides which package accepts which option, and refuses nil ones.
package option

import (
	"fmt"
	"reflect"
)

// What an option can be given to.
type (
	Client interface{ client() }
	HTTP   interface{ http() }
	Task   interface{ task() }
)

// Embedded in an option type, these make it one of the above.
type (
	ForClient  struct{}
	ForHTTP    struct{}
	ForTask    struct{}
	Everywhere struct {
		ForClient
		ForHTTP
		ForTask
	}
)

func (ForClient) client() {}
func (ForHTTP) http()     {}
func (ForTask) task()     {}

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

// Apply applies options to c. It panics, naming the function that they were given to, if one is nil.
func Apply[C any, O ~func(*C)](c *C, function string, opts []O) {
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("%s: option %d is nil", function, i+1))
		}
		o(c)
	}
}
