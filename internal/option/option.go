// Package option contains the marks by which the compiler decides which package accepts which option. It also refuses nil
// options.
package option

import (
	"fmt"
	"reflect"
)

// Places that accept options.
type (
	Client     interface{ client() }
	Consumer   interface{ consumer() }
	HTTP       interface{ http() }
	Idempotent interface{ idempotent() }
	Job        interface{ job() }
	Task       interface{ task() }
)

// Embedded in an option type, these decide which places accept it.
type (
	ForClient     struct{}
	ForConsumer   struct{}
	ForHTTP       struct{}
	ForIdempotent struct{}
	ForJob        struct{}
	ForTask       struct{}
	Everywhere    struct {
		ForClient
		ForConsumer
		ForHTTP
		ForJob
		ForTask
	}
)

func (ForClient) client()         {}
func (ForConsumer) consumer()     {}
func (ForHTTP) http()             {}
func (ForIdempotent) idempotent() {}
func (ForJob) job()               {}
func (ForTask) task()             {}

// IsNil reports whether value is nil, a nil function or map, or an interface that contains a nil pointer. The last happens if
// the error of a constructor was ignored.
func IsNil(value any) bool {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map:
		return v.IsNil()
	}
	return false
}

// NotNil panics with text if IsNil(value).
func NotNil(value any, text string) {
	if IsNil(value) {
		panic(text)
	}
}

// Apply applies options to c. If one is nil it panics, and names the function that received the options.
func Apply[C any, O ~func(*C)](c *C, function string, opts []O) {
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("%s: option %d is nil", function, i+1))
		}
		o(c)
	}
}
